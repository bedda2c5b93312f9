//! Converts the paths in a kubeconfig between absolute paths and paths relative to the kubeconfig file. The
//! conversions do not access the file system.

use std::path::{Component, Path, PathBuf};

use crate::types::{AuthInfo, ClusterInfo, Kubeconfig};

/// Makes all paths in a kubeconfig absolute, where relative paths are relative to `directory`.
pub(crate) fn resolve(config: &mut Kubeconfig, directory: &Path) {
    each_path(config, |path| {
        if path.is_relative() && !path.as_os_str().is_empty() {
            *path = clean(&directory.join(&*path));
        }
    });
}

pub(crate) fn relativize_cluster(cluster: &mut ClusterInfo, directory: &Path) {
    cluster_paths(cluster).for_each(|path| relativize(path, directory));
}

pub(crate) fn relativize_user(user: &mut AuthInfo, directory: &Path) {
    user_paths(user, |path| relativize(path, directory));
}

/// Makes `path` relative if it is inside `directory`. A path outside of `directory` stays absolute, because a relative
/// path with `..` would become wrong if the kubeconfig is moved.
fn relativize(path: &mut PathBuf, directory: &Path) {
    if let Ok(rest) = path.strip_prefix(directory)
        && !rest.as_os_str().is_empty()
    {
        *path = rest.into();
    }
}

fn each_path(config: &mut Kubeconfig, mut change: impl FnMut(&mut PathBuf)) {
    for cluster in config.clusters.values_mut() {
        cluster_paths(cluster).for_each(&mut change);
    }
    for user in config.users.values_mut() {
        user_paths(user, &mut change);
    }
}

fn cluster_paths(cluster: &mut ClusterInfo) -> impl Iterator<Item = &mut PathBuf> {
    cluster.certificate_authority.iter_mut()
}

fn user_paths(user: &mut AuthInfo, mut change: impl FnMut(&mut PathBuf)) {
    for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file].into_iter().flatten() {
        change(path);
    }
    // Leave a command without a path separator unchanged, because the client searches `PATH` for it.
    if let Some(exec) = &mut user.exec
        && exec.command.contains(std::path::is_separator)
    {
        let mut path = PathBuf::from(&exec.command);
        change(&mut path);
        // Leave the command unchanged if the joined path is not valid UTF-8.
        if let Ok(text) = path.into_os_string().into_string() {
            // Without the prefix `./`, the client would search `PATH` for the file name.
            exec.command = if text.contains(std::path::is_separator) { text } else { format!("./{text}") };
        }
    }
}

/// Removes `.` components, and each `..` component together with the normal component before it.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(cleaned.components().next_back(), Some(Component::Normal(_))) => {
                cleaned.pop();
            }
            other => cleaned.push(other),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Exec;

    #[test]
    fn relative_paths_round_trip_through_the_file_directory() {
        let directory = Path::new("/home/me/.kube");
        for (written, resolved, back) in [
            ("ca.pem", "/home/me/.kube/ca.pem", "ca.pem"),
            ("./certs/ca.pem", "/home/me/.kube/certs/ca.pem", "certs/ca.pem"),
            ("../ca.pem", "/home/me/ca.pem", "/home/me/ca.pem"),
            ("/etc/ca.pem", "/etc/ca.pem", "/etc/ca.pem"),
            ("/home/me/.kube/x", "/home/me/.kube/x", "x"),
            ("", "", ""),
        ] {
            let mut config = Kubeconfig::default();
            let user = AuthInfo { token_file: Some(written.into()), ..AuthInfo::default() };
            let cluster = ClusterInfo { certificate_authority: Some(written.into()), ..ClusterInfo::default() };
            config.users.insert("u".into(), user);
            config.clusters.insert("c".into(), cluster);
            resolve(&mut config, directory);
            assert_eq!(config.users["u"].token_file, Some(resolved.into()));
            assert_eq!(config.clusters["c"].certificate_authority, Some(resolved.into()));
            let mut user = config.users["u"].clone();
            relativize_user(&mut user, directory);
            assert_eq!(user.token_file, Some(back.into()));
        }
    }

    #[test]
    fn command_is_a_path_only_with_a_separator() {
        for (written, resolved, back) in [
            ("login", "login", "login"),
            ("./login", "/home/me/.kube/login", "./login"),
            ("bin/login", "/home/me/.kube/bin/login", "bin/login"),
            ("/bin/login", "/bin/login", "/bin/login"),
        ] {
            let exec = Exec { command: written.into(), ..Exec::default() };
            let mut config = Kubeconfig::default();
            config.users.insert("u".into(), AuthInfo { exec: Some(exec), ..AuthInfo::default() });
            resolve(&mut config, Path::new("/home/me/.kube"));
            let mut user = config.users["u"].clone();
            assert_eq!(user.exec.as_ref().unwrap().command, resolved);
            relativize_user(&mut user, Path::new("/home/me/.kube"));
            assert_eq!(user.exec.unwrap().command, back);
        }
    }
}
