//! Tests in which child processes receive real signals.

use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use pintle_leaderelect::Lease;
use pintle_operator::{Action, Context, Controller, Manager, Result};
use tokio_util::sync::CancellationToken;

use crate::support::{Website, World, soon};

/// The environment variable that marks the process as the child process of a test.
const CHILD: &str = "PINTLE_TEST_SIGNAL_CHILD";
/// The line that the child process prints when it is ready for the signal.
const READY: &str = "reconciling default/blog";
const LIMIT: Duration = Duration::from_millis(500);
/// The timeout of the tests. The timeout is much longer than the shutdown timeout, because the machine may be busy,
/// and much shorter than the blocking work.
const SOON: Duration = Duration::from_secs(20);
const WORK: Duration = Duration::from_secs(90);

fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

struct Program {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    errors: Receiver<String>,
    seen: String,
}

impl Program {
    fn start(name: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([&format!("signal::{name}"), "--exact", "--nocapture"]).env(CHILD, "1").env("NO_COLOR", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let errors = lines(child.stderr.take().unwrap());
        Self { child, output, errors, seen: String::new() }
    }

    fn wait_for_output(&mut self, text: &str) {
        loop {
            match self.output.next() {
                Some(line) if line.as_ref().unwrap().contains(text) => return,
                Some(_) => {}
                None => panic!("the child ended before it printed {text:?}: {}", self.rest()),
            }
        }
    }

    fn wait_for_error(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let Ok(line) = self.errors.recv_timeout(SOON) else {
                panic!("the child did not log {text:?}: {}", self.seen)
            };
            self.seen += &line;
        }
    }

    fn signal(&self) {
        let kill = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &self.child.id().to_string()]).status().unwrap();
        assert!(kill.success(), "{kill}");
    }

    /// Waits for the end of the process, and returns the exit status and the stderr output.
    fn ended(mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        while self.child.try_wait().unwrap().is_none() && started.elapsed() < SOON {
            thread::park_timeout(Duration::from_millis(5));
        }
        let has_ended = self.child.try_wait().unwrap();
        if has_ended.is_none() {
            self.child.kill().unwrap();
        }
        let status = self.child.wait().unwrap();
        let errors = self.rest();
        assert!(has_ended.is_some(), "the child still runs: {errors}");
        (status, errors)
    }

    fn rest(&mut self) -> String {
        self.errors.iter().for_each(|line| self.seen += &line);
        self.seen.clone()
    }
}

fn lines(errors: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(errors).lines() {
            sender.send(line.unwrap() + "\n").unwrap();
        }
    });
    lines
}

/// Prints a line to stdout directly, because the test harness may capture the output of `println!`.
fn print(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Returns a manager with one controller, whose reconciler calls `block`.
fn manager<Fut: Future<Output = ()> + Send>(
    world: &World,
    limit: Duration,
    block: impl Fn() -> Fut + Send + Sync + 'static,
) -> Manager {
    let block = Arc::new(block);
    let controller = Controller::<Website>::new().reconcile(move |_: Arc<Website>, cx: Context<Website>| {
        let block = block.clone();
        async move {
            print(&format!("reconciling {}", cx.key()));
            block().await;
            Ok(Action::await_change())
        }
    });
    world.manager().controller(controller).shutdown_timeout(limit)
}

async fn work() {
    tokio::task::spawn_blocking(|| thread::sleep(WORK)).await.unwrap();
}

#[test]
fn sigterm_ends_the_program_and_names_unfinished_keys() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let world = World::with_site("blog").await;
        manager(&world, LIMIT, std::future::pending).run_until_signal().await
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("sigterm_ends_the_program_and_names_unfinished_keys");
    program.wait_for_output(READY);
    program.signal();
    let (status, errors) = program.ended();
    assert!(!status.success(), "{status}: {errors}");
    assert!(errors.contains("stopping signal=\"SIGTERM\""), "{errors}");
    assert!(errors.contains("in flight: default/blog"), "{errors}");
    Ok(())
}

#[test]
fn signal_is_logged_before_the_end_of_the_controllers() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let world = World::with_site("blog").await;
        let controller = Controller::<Website>::new().reconcile(async |_: Arc<Website>, _: Context<Website>| {
            print(READY);
            Ok(Action::requeue_after(WORK))
        });
        world.manager().controller(controller).run_until_signal().await
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("signal_is_logged_before_the_end_of_the_controllers");
    program.wait_for_output(READY);
    program.signal();
    let (status, errors) = program.ended();
    let [signal, end] = ["stopping signal=", "stopped with unfinished keys"].map(|text| errors.find(text).unwrap());
    assert!(status.success() && signal < end, "{status}: {errors}");
    Ok(())
}

#[test]
fn second_signal_exits_the_process_at_once() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let world = World::with_site("blog").await;
        manager(&world, WORK, std::future::pending).run_until_signal().await
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("second_signal_exits_the_process_at_once");
    program.wait_for_output(READY);
    program.signal();
    program.wait_for_error("stopping signal=\"SIGTERM\"");
    program.signal();
    let (status, errors) = program.ended();
    assert!(status.code() == Some(1) && errors.contains("second signal: exiting at once"), "{status}: {errors}");
    Ok(())
}

/// The runtime has only one worker thread, as in a pod with one CPU.
#[test]
fn sigterm_ends_a_program_whose_threads_are_all_blocked() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    async fn program() -> Result<()> {
        let world = World::with_site("blog").await;
        manager(&world, LIMIT, async || thread::sleep(WORK)).run_until_signal().await
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("sigterm_ends_a_program_whose_threads_are_all_blocked");
    program.wait_for_output(READY);
    program.signal();
    let (status, errors) = program.ended();
    assert!(status.code() == Some(1) && errors.contains("the call for default/blog has blocked"), "{status}: {errors}");
    Ok(())
}

/// Log calls on other threads block on the stderr lock.
#[test]
fn sigterm_ends_a_program_with_a_locked_stderr() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let world = World::with_site("blog").await;
        let block = async || {
            let _lock = std::io::stderr().lock();
            print("stderr is locked");
            thread::sleep(WORK);
        };
        manager(&world, LIMIT, block).run_until_signal().await
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("sigterm_ends_a_program_with_a_locked_stderr");
    program.wait_for_output("stderr is locked");
    program.signal();
    let (status, errors) = program.ended();
    assert_eq!(status.code(), Some(1), "{errors}");
    Ok(())
}

/// When `main` returns, the runtime waits for the end of the blocking work.
#[test]
fn sigterm_ends_a_program_with_blocking_work() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let world = World::with_site("blog").await;
        let manager = manager(&world, LIMIT, work).leader_election();
        let ended = manager.run_until_signal().await;
        let lease: Lease = soon(world.cluster.namespaced("default").get("website-controller")).await?;
        print(&format!("holder {:?}", lease.spec.record().holder_identity));
        ended
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("sigterm_ends_a_program_with_blocking_work");
    program.wait_for_output(READY);
    program.signal();
    program.wait_for_output("holder \"\"");
    let (status, errors) = program.ended();
    assert!(status.code() == Some(1) && errors.contains("pintle: the process did not end"), "{status}: {errors}");
    Ok(())
}

/// Like blocking work, a service that blocks a runtime thread keeps the process alive.
#[test]
fn sigterm_ends_a_program_with_a_blocked_service() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let service = async |_: CancellationToken| {
            print(READY);
            thread::sleep(WORK);
            Ok(())
        };
        let world = World::start().await;
        world.manager().service("blocks", service).shutdown_timeout(LIMIT).run_until_signal().await
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("sigterm_ends_a_program_with_a_blocked_service");
    program.wait_for_output(READY);
    program.signal();
    let (status, errors) = program.ended();
    assert!(status.code() == Some(1) && errors.contains("pintle: the process did not end"), "{status}: {errors}");
    Ok(())
}

fn failing(world: &World, limit: Duration) -> Manager {
    let service = async |_: CancellationToken| Err("the service is broken".into());
    world.manager().service("fails", service).shutdown_timeout(limit)
}

#[test]
fn failed_program_with_blocking_work_exits() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let work = tokio::spawn(work());
        let world = World::start().await;
        let ended = failing(&world, LIMIT).run_until_signal().await;
        drop(work);
        ended
    }
    if is_child() {
        return program();
    }
    let (status, errors) = Program::start("failed_program_with_blocking_work_exits").ended();
    assert!(status.code() == Some(1) && errors.contains("pintle: the process did not end"), "{status}: {errors}");
    Ok(())
}

#[test]
fn signal_after_the_manager_has_ended_exits() -> Result<()> {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn program() -> Result<()> {
        let world = World::start().await;
        let ended = failing(&world, WORK).run_until_signal().await;
        print(READY);
        std::future::pending::<()>().await;
        ended
    }
    if is_child() {
        return program();
    }
    let mut program = Program::start("signal_after_the_manager_has_ended_exits");
    program.wait_for_output(READY);
    program.signal();
    let (status, errors) = program.ended();
    assert!(status.code() == Some(1) && errors.contains("signal after the end of the manager"), "{status}: {errors}");
    Ok(())
}
