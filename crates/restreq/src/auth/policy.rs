//! Checks the credential plugin policy.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Component, Path, PathBuf};

use pintle_meta::PluginPolicy;
use pintle_transport::ConfigError;

/// Returns an error if the allowlist is empty or contains a path that is not in normalized form.
pub(super) fn check(policy: &PluginPolicy) -> Result<(), ConfigError> {
    let PluginPolicy::Allowlist(list) = policy else { return Ok(()) };
    let fault = |why: String| Err(ConfigError::Value { field: "plugin_policy", why });
    if list.is_empty() {
        return fault("the allow-list is empty; use DenyAll to allow none".into());
    }
    match list.iter().find(|entry| !is_normal(entry)) {
        None => Ok(()),
        Some(entry) => fault(format!("{entry:?} is neither a program name nor a path without `.` or `..`")),
    }
}

/// Returns the path of the program `command`, as an absolute path if possible. If the policy does not allow the
/// program, returns the reason as an error. `path` is the value of the environment variable `PATH`.
pub(super) fn allowed(policy: &PluginPolicy, command: &str, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let list = match policy {
        PluginPolicy::DenyAll => return Err("plugin_policy allows no credential plugin".into()),
        PluginPolicy::Allowlist(list) => list,
        _ => return Ok(command.into()),
    };
    let resolved = look_path(Path::new(command), path);
    let is_listed = |program: &Path| list.iter().any(|entry| entry == program);
    if is_listed(Path::new(command)) {
        // A name that was not resolved could run a program from a relative directory of `PATH`.
        return resolved.ok_or_else(|| "it is not found in the absolute directories of PATH".into());
    }
    let Some(resolved) = resolved else {
        return Err("it is not found, so plugin_policy cannot be checked".into());
    };
    let is_same_file = |entry: &PathBuf| {
        entry.file_name() == resolved.file_name() && look_path(entry, path).is_some_and(|entry| entry == resolved)
    };
    if is_listed(&resolved) || list.iter().any(is_same_file) {
        return Ok(resolved);
    }
    Err(format!("{} is not on the allow-list of plugin_policy", resolved.display()))
}

/// Returns `true` if `entry` is a normalized path, because only normalized paths can be compared.
fn is_normal(entry: &Path) -> bool {
    let plain = |part: Component<'_>| !matches!(part, Component::CurDir | Component::ParentDir);
    let rebuilt: PathBuf = entry.components().collect();
    !entry.as_os_str().is_empty() && entry.components().all(plain) && rebuilt.as_os_str() == entry.as_os_str()
}

/// Returns the path of the program `command`. If `command` contains no slash, it is searched for in the absolute
/// directories of `PATH`.
fn look_path(command: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if command.parent().is_some_and(|parent| !parent.as_os_str().is_empty()) {
        return executable(command);
    }
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(command)).find_map(|file| executable(&file))
}

fn executable(file: &Path) -> Option<PathBuf> {
    let mut suffixed = file.as_os_str().to_owned();
    suffixed.push(EXE_SUFFIX);
    let is_program = |file: &PathBuf| file.metadata().is_ok_and(|found| found.is_file() && may_be_run(&found));
    [file.to_owned(), suffixed.into()].into_iter().find(is_program)
}

#[cfg(unix)]
fn may_be_run(file: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn may_be_run(_: &Metadata) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn invalid_allowlist_is_rejected() {
        let list = |entries: &[&str]| PluginPolicy::Allowlist(entries.iter().map(PathBuf::from).collect());
        for entries in [&["aws"][..], &["/opt/login", "aws"], &["bin/login"]] {
            check(&list(entries)).unwrap();
        }
        for entries in [&[][..], &[""], &["aws", ""], &["/opt/../login"], &["./login"], &["/opt//login"], &["/opt/"]] {
            let error = check(&list(entries)).unwrap_err().to_string();
            assert!(error.contains("plugin_policy"), "{entries:?}: {error}");
        }
        check(&PluginPolicy::AllowAll).unwrap();
        check(&PluginPolicy::DenyAll).unwrap();
    }

    /// Contains the test cases of client-go's allowlist.
    #[test]
    fn plugin_is_allowed_by_name_or_by_resolved_path() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (first, second) = (file("first/login", 0o755), file("second/login", 0o755));
        let hidden = file("second/other", 0o755);
        file("first/other", 0o644);
        let path = std::env::join_paths([Path::new("first"), &root.path().join("first"), &root.path().join("second")])
            .unwrap();
        let run = |entry: &Path, command: &Path| {
            allowed(&PluginPolicy::Allowlist(vec![entry.into()]), command.to_str().unwrap(), Some(&path)).ok()
        };
        let login = Path::new("login");
        assert_eq!(run(login, login), Some(first.clone()), "the resolved path is run");
        assert_eq!(run(login, &first), Some(first.clone()), "the name resolves to that file");
        assert_eq!(run(&first, login), Some(first.clone()), "the command resolves to that file");
        assert_eq!(run(&first, &first), Some(first.clone()));
        assert_eq!(run(&second, login), None, "PATH resolves to another file");
        assert_eq!(run(login, &second), None, "the same name, another file");
        assert_eq!(run(Path::new("other"), &hidden), Some(hidden), "a file that is not executable is skipped");
        assert_eq!(run(Path::new("gone"), login), None);
        assert_eq!(run(login, Path::new("gone")), None);
        let gone = Path::new("gone");
        assert_eq!(run(gone, gone), None, "starting it would search relative directories of PATH");
        assert_eq!(allowed(&PluginPolicy::AllowAll, "login", Some(&path)), Ok(login.into()));
        allowed(&PluginPolicy::DenyAll, "login", Some(&path)).unwrap_err();
    }
}
