//! The command lines and results of the benchmark programs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module writes to the terminal")]

use std::process::ExitCode;

use pintle_kubeconfig::{Environment, Overrides};
use pintle_meta::ClientConfig;
use tokio::runtime::{Builder, Runtime};

use crate::meter::Sample;

/// The options on the command line. Each program accepts only the options in its usage text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Whether to run only a small part of the workload as a smoke test.
    pub(crate) quick: bool,
    /// The kubeconfig of the server, or the URL of the load server.
    pub(crate) server: Option<&'static str>,
    /// The process ids of the server, separated by commas.
    pub(crate) processes: &'static str,
    pub(crate) objects: usize,
    pub(crate) workers: usize,
    /// Whether electors poll the lease instead of watching the lease.
    pub(crate) polling: bool,
    pub(crate) keys: Keys,
    pub(crate) metrics: bool,
    /// Whether workers and producers are tokio tasks on the default runtime instead of threads.
    pub(crate) tasks: bool,
    /// Whether workers finish a key and get the next key in a single call. The option only affects workers that do no
    /// work for their keys.
    pub(crate) next: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keys {
    /// `Arc<str>`.
    #[default]
    Arc,
    /// `&'static str`, which is as cheap to clone as a Go string.
    Static,
    /// `String`, for which each clone allocates memory.
    String,
}

/// Runs the workload that the command line names, and prints its [`Sample`] as JSON. If the workload or an option is
/// unknown, or if `run` returns `None`, prints `usage` and the names of the workloads, and returns the exit code 2.
pub(crate) fn main<W: Copy>(
    usage: &str,
    works: &[(&str, W)],
    run: impl FnOnce(W, &Setting) -> Option<Sample>,
) -> ExitCode {
    // Leak the arguments, so that `Setting` can be `Copy`.
    let mut args = std::env::args().skip(1).map(|arg| &*arg.leak());
    let name = args.next();
    let work = works.iter().find(|(work, _)| Some(*work) == name);
    let Some(sample) = work.zip(Setting::parse(usage, args)).and_then(|((_, work), setting)| run(*work, &setting))
    else {
        eprintln!("usage: {usage}, one of:");
        works.iter().for_each(|(work, _)| eprintln!("  {work}"));
        return ExitCode::from(2);
    };
    match serde_json::to_string(&sample) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

impl Setting {
    /// Parses the options in `args`. Returns `None` if `usage` does not contain an option, or if an option's value is
    /// missing or invalid.
    fn parse(usage: &str, mut args: impl Iterator<Item = &'static str>) -> Option<Self> {
        let mut setting = Self { workers: 1, ..Self::default() };
        while let Some(option) = args.next() {
            usage.split(['[', ' ', ']']).find(|known| *known == option)?;
            match option {
                "--quick" => setting.quick = true,
                "--server" => setting.server = Some(args.next()?),
                "--processes" => setting.processes = args.next()?,
                "--objects" => setting.objects = args.next()?.parse().ok()?,
                "--workers" => setting.workers = args.next()?.parse().ok()?,
                "--polling" => setting.polling = true,
                "--keys" => {
                    setting.keys = match args.next()? {
                        "static" => Keys::Static,
                        "string" => Keys::String,
                        _ => return None,
                    }
                }
                "--metrics" => setting.metrics = true,
                "--tasks" => setting.tasks = true,
                "--next" => setting.next = true,
                _ => return None,
            }
        }
        Some(setting)
    }

    pub(crate) fn size(self, full: usize) -> usize {
        if self.quick { full / 50 } else { full }
    }

    /// Reads the client configuration from the kubeconfig `server`.
    pub(crate) fn client_config(self, context: Option<&str>) -> ClientConfig {
        let overrides = Overrides { context: context.map(Into::into), ..Overrides::default() };
        let config = pintle_kubeconfig::infer(self.server.map(Into::into), &overrides, &Environment::default());
        config.expect("a valid kubeconfig")
    }
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("cannot create a runtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outside_of_the_usage_are_rejected() {
        let parse = |args: &'static str| Setting::parse("queue WORK [--keys static|string] [--quick]", args.split(' '));
        let expected = Setting { keys: Keys::String, quick: true, workers: 1, ..Setting::default() };
        assert_eq!(parse("--quick --keys string"), Some(expected));
        for wrong in ["--tasks", "--fast", "WORK", "--keys", "--keys arc"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
