//! Limits the CPU time of a program with a Linux cgroup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A cgroup that limits the CPU time of its processes, and that is removed on drop.
pub(crate) struct Quota {
    folder: PathBuf,
}

/// The period of the CPU limit in microseconds, as in the kernel's default.
const PERIOD: f64 = 100_000.0;

impl Quota {
    /// Creates a cgroup with this limit in CPUs. Fails if this process is not permitted to create cgroups.
    pub(crate) fn new(cpus: f64) -> anyhow::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("this system has no control groups")?;
        let groups = fs::read_to_string("/proc/self/cgroup").context("this system has no control groups")?;
        let mut why = "no control group of this process can limit CPU time".to_owned();
        for (parent, version) in parents(&mounts, &groups) {
            match make(&parent, version, cpus) {
                Ok(quota) => return Ok(quota),
                Err(error) => why = format!("{error:#}"),
            }
        }
        bail!("no writable cgroup: {why}");
    }

    /// Returns the path of the file to which a process writes its process ID to join the cgroup.
    pub(crate) fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            println!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Returns the cgroups of this process that can limit CPU time, starting with the innermost.
fn parents(mounts: &str, groups: &str) -> Vec<(PathBuf, Version)> {
    let mut found = Vec::new();
    for mount in mounts.lines() {
        let mut fields = mount.split(' ').skip(1);
        let (Some(point), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let has_cpu = |controllers: &str| controllers.split(',').any(|controller| controller == "cpu");
        let version = match kind {
            "cgroup2" => Version::V2,
            "cgroup" if has_cpu(options) => Version::V1,
            _ => continue,
        };
        let own = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let this = if version == Version::V2 { controllers.is_empty() } else { has_cpu(controllers) };
            this.then_some(path)
        });
        let point = Path::new(point);
        // Ignore a path with `..`, which is outside of this mount.
        if let Some(own) = own.filter(|own| !own.contains("..")) {
            let own: PathBuf = point.iter().chain(Path::new(own).iter().skip(1)).collect();
            let inside = own.ancestors().take_while(|folder| folder.starts_with(point));
            found.extend(inside.map(|folder| (folder.to_owned(), version)));
        }
    }
    found
}

fn make(parent: &Path, version: Version, cpus: f64) -> anyhow::Result<Quota> {
    let folder = parent.join("pintle-bench");
    match fs::create_dir(&folder) {
        // Use a cgroup that an interrupted run has left behind, unless it still contains processes of a concurrent
        // run.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().is_empty() {
                bail!("{} is in use", folder.display());
            }
        }
        made => made.with_context(|| format!("making {}", folder.display()))?,
    }
    let quota = Quota { folder };
    let share = cpus * PERIOD;
    let (file, text) = match version {
        Version::V1 => ("cpu.cfs_quota_us", format!("{share}")),
        Version::V2 => ("cpu.max", format!("{share} {PERIOD}")),
    };
    let file = quota.folder.join(file);
    fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    Ok(quota)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(mounts: &str, groups: &str, expected: &[(&str, Version)]) {
        let found = parents(mounts, groups);
        let found: Vec<_> = found.iter().map(|(path, version)| (path.to_str().expect("text"), *version)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn unified_hierarchy_offers_all_own_groups() {
        finds(
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            "0::/user.slice/me\n",
            &[
                ("/sys/fs/cgroup/user.slice/me", Version::V2),
                ("/sys/fs/cgroup/user.slice", Version::V2),
                ("/sys/fs/cgroup", Version::V2),
            ],
        );
    }

    #[test]
    fn older_hierarchies_offer_the_cpu_group() {
        let mounts =
            "cgroup /c/cpuset cgroup rw,cpuset 0 0\ncgroup /c/cpu cgroup rw,cpu,cpuacct 0 0\nproc /proc proc rw 0 0\n";
        finds(mounts, "2:cpuset:/a\n1:cpu,cpuacct:/\n0::/\n", &[("/c/cpu", Version::V1)]);
    }

    #[test]
    fn groups_outside_of_the_mount_are_skipped() {
        finds("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/../other\n", &[]);
    }
}
