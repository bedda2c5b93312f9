//! Profiles our side of workloads that miss a goal, and formats the profiles for the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use xshell::{Shell, cmd};

use super::rows::Row;

/// The CPU samples of one run of our side.
pub(crate) struct Profile {
    /// The text in the first column of the missed rows.
    workload: String,
    /// The share of each part in percent, the largest first, with the functions that use the most of it.
    parts: Vec<(String, f64, Vec<String>)>,
}

/// Parts with a smaller share of the samples, in percent, are omitted from the table.
const SMALLEST: f64 = 2.0;

/// The maximum number of functions listed for each part.
const FUNCTIONS: usize = 3;

/// The sample rate in Hz. It is a prime number, so that the samples do not follow a periodic timer of the program.
const RATE: &str = "1999";

impl Profile {
    /// Returns the commands to put before a program, which record the program, or the processes with these IDs while
    /// the program runs.
    pub(crate) fn recorder(file: &Path, processes: &[String]) -> Vec<String> {
        let mut words = ["perf", "record", "--quiet", "-F", RATE, "-o"].map(str::to_owned).to_vec();
        words.push(file.display().to_string());
        if !processes.is_empty() {
            words.extend(["-p".to_owned(), processes.join(",")]);
        }
        words.push("--".to_owned());
        words
    }

    /// Reads the samples that `perf record` wrote to `file`.
    pub(crate) fn read(sh: &Shell, workload: &str, file: &Path) -> anyhow::Result<Self> {
        let command = cmd!(sh, "perf report -i {file} --stdio --no-children -g none -F overhead,dso,symbol -t |");
        let report = command.quiet().ignore_stderr().read().context("cannot read the samples")?;
        Ok(Self { workload: workload.to_owned(), parts: parts(&report) })
    }

    /// Checks that `perf` can record samples.
    pub(crate) fn check(sh: &Shell) -> anyhow::Result<()> {
        let check = cmd!(sh, "perf record --quiet -o /dev/null -- true").quiet().ignore_stdout().ignore_stderr().run();
        check.context("profiles need the Linux program perf, and /proc/sys/kernel/perf_event_paranoid of at most 2")
    }

    pub(crate) fn page(profiles: &[Self]) -> String {
        let mut text = String::new();
        if profiles.is_empty() {
            return text;
        }
        text.push_str(
            "\n## Profiles of the workloads with missed goals\n\nThe CPU samples of our side in one more run, in percent. \
             In workloads with a server of their own, the samples are from the server. A part is a crate, the kernel, or a \
             kind of library function.\n",
        );
        for Self { workload, parts } in profiles {
            let _ = writeln!(text, "\n### {workload}\n\n| part | % | functions |\n|---|---:|---|");
            for (part, share, functions) in parts {
                let _ = writeln!(text, "| {part} | {share:.1} | {} |", functions.join(", "));
            }
        }
        text
    }
}

/// Returns whether a row of `rows` missed its goal.
pub(crate) fn missed(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.met == Some(false))
}

/// Adds up the shares in the lines `12.3%|object|[.] function` of `report`.
fn parts(report: &str) -> Vec<(String, f64, Vec<String>)> {
    let mut parts: BTreeMap<String, (f64, Vec<(f64, String)>)> = BTreeMap::new();
    for line in report.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.splitn(3, '|').map(str::trim);
        let (Some(share), Some(object), Some(symbol)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let Ok(share) = share.trim_end_matches('%').parse::<f64>() else { continue };
        let function = symbol.split_once(' ').map_or(symbol, |(_, name)| name.trim());
        let (sum, functions) = parts.entry(part(object, function)).or_default();
        *sum += share;
        functions.push((share, short(function)));
    }
    let mut parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, (share, _))| *share >= SMALLEST)
        .map(|(part, (share, mut functions))| {
            functions.sort_by(|one, other| other.0.total_cmp(&one.0));
            let functions = functions.into_iter().take(FUNCTIONS).filter(|(share, _)| *share >= SMALLEST / 4.0);
            (part, share, functions.map(|(share, name)| format!("`{name}` {share:.1}")).collect())
        })
        .collect();
    parts.sort_by(|one: &(String, f64, _), other| other.1.total_cmp(&one.1));
    parts
}

fn part(object: &str, function: &str) -> String {
    let is_allocator =
        ["malloc", "free", "alloc", "unlink_chunk", "sysmalloc"].iter().any(|word| function.contains(word));
    let part = match (object, crate_of(function)) {
        (kernel, _) if kernel.starts_with("[kernel") => "kernel",
        ("[vdso]", _) => "clock",
        (libc, _) if libc.starts_with("libc") && is_allocator => "allocator",
        (libc, _) if libc.starts_with("libc") => "C library",
        (_, None) => "native code, mostly cryptography",
        (_, Some("core" | "alloc" | "std" | "hashbrown")) => "standard library",
        (_, Some(name)) => name,
    };
    part.to_owned()
}

/// Returns the crate in a Rust path such as `<a::B<c::D> as e::F>::g`, or `None` for a name without a path.
fn crate_of(function: &str) -> Option<&str> {
    let path = function.trim_start_matches(['<', '&', '[', '(', '*']);
    let path = ["mut ", "const ", "dyn "].iter().fold(path, |path, word| path.strip_prefix(word).unwrap_or(path));
    let path = path.trim_start_matches(['<', '&']);
    let name = path.split_once("::")?.0;
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name(name) {
        return Some(name);
    }
    // A type parameter, as in `<R as crate_name::Trait<K>>::function`.
    let (_, of) = function.split_once(" as ")?;
    of.split_once("::").map(|(name, _)| name.trim_start_matches('<')).filter(|name| is_name(name))
}

/// Returns the last two names of a path, without type parameters and closures. `<a::B<C> as d::E>::f` becomes `B::f`.
fn short(function: &str) -> String {
    let (self_type, method) = qualified(function).unwrap_or(("", function));
    let self_type = self_type.split_once(" as ").map_or(self_type, |(self_type, _)| self_type);
    let path = format!("{}::{method}", without_parameters(self_type));
    let path = without_parameters(&path);
    let names = path.split("::").filter(|name| !name.is_empty() && !name.starts_with("{{closure"));
    let names: Vec<&str> = names.collect();
    names[names.len().saturating_sub(2)..].join("::")
}

/// Splits `<a::B<C> as d::E>::f` into `a::B<C> as d::E` and `::f`.
fn qualified(function: &str) -> Option<(&str, &str)> {
    let inner = function.strip_prefix('<')?;
    let mut depth = 1_usize;
    let end = inner.find(|c| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some((&inner[..end], &inner[end + 1..]))
}

fn without_parameters(path: &str) -> String {
    let mut depth = 0_usize;
    let keep = |c: &char| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    path.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_by_crate() {
        let report = "# comment\n 12.50%|bench|[.] <pintle_store::Store<V>>::get\n  2.25%|bench|[.] pintle_store::put::{{closure}}\n\
                      30.00%|[kernel.kallsyms]|[k] clear_page\n  5.00%|libc.so.6|[.] _int_malloc\n  1.00%|bench|[.] gcm_init\n";
        let parts = parts(report);
        let shares: Vec<(&str, f64)> = parts.iter().map(|(part, share, _)| (part.as_str(), *share)).collect();
        assert_eq!(shares, [("kernel", 30.0), ("pintle_store", 14.75), ("allocator", 5.0)]);
        assert_eq!(parts[1].2, ["`Store::get` 12.5", "`pintle_store::put` 2.2"]);
    }

    #[test]
    fn paths_name_their_crate() {
        for (function, expected) in [
            ("<pintle_operator::bound::Bound<K> as pintle_controller::Reconciler>::reconcile", Some("pintle_operator")),
            ("<&mut serde_json::de::Deserializer<R> as serde_core::Deserializer>::any", Some("serde_json")),
            ("<R as pintle_controller::reconciler::AnyReconciler<K>>::reconcile", Some("pintle_controller")),
            ("core::str::converts::from_utf8", Some("core")),
            ("gcm_init_avx", None),
        ] {
            assert_eq!(crate_of(function), expected, "{function}");
        }
    }

    #[test]
    fn short_names_keep_the_type_and_the_method() {
        for (function, expected) in [
            ("<a::b::C<D<E>> as f::G<H>>::i::{{closure}}", "C::i"),
            ("a::b::C<D>::e", "C::e"),
            ("<a::B<C>>::d::<e::F>", "B::d"),
            ("<&mut a::B<C> as d::E>::f", "B::f"),
            ("_int_malloc", "_int_malloc"),
        ] {
            assert_eq!(short(function), expected, "{function}");
        }
    }

    #[test]
    fn pages_have_one_table_for_each_workload() {
        let parts = vec![("kernel".to_owned(), 30.0, vec!["`clear_page` 30.0".to_owned()])];
        let page = Profile::page(&[Profile { workload: "add".to_owned(), parts }]);
        assert!(
            page.ends_with(
                "### add\n\n| part | % | functions |\n|---|---:|---|\n| kernel | 30.0 | `clear_page` 30.0 |\n"
            )
        );
        assert_eq!(Profile::page(&[]), "");
    }
}
