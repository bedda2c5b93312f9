//! Tests that only changed entries are written, each in place in the file that contains it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use pintle_kubeconfig::{AuthInfo, ClusterInfo, Context, Data, Environment, Error, Files, Kubeconfig, Overrides};
use pintle_meta::Secret;

fn files(paths: &[&Path]) -> Files {
    let kubeconfig = Some(std::env::join_paths(paths).unwrap());
    Files::new(&Environment { kubeconfig, ..Environment::default() })
}

fn read(path: &Path) -> Kubeconfig {
    Kubeconfig::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cluster(server: &str) -> ClusterInfo {
    ClusterInfo { server: server.into(), ..ClusterInfo::default() }
}

fn two(dir: &Path) -> (PathBuf, PathBuf) {
    let (a, b) = (dir.join("a"), dir.join("b"));
    std::fs::write(&a, "current-context: c\nclusters: [{name: a, cluster: {server: 'https://a'}}]\n").unwrap();
    std::fs::write(
        &b,
        "# mine\nclusters: [{name: b, cluster: {server: 'https://b', certificate-authority: ca}}, {name: a, cluster: {}}]\n",
    )
    .unwrap();
    (a, b)
}

#[test]
fn changed_entries_stay_in_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let before = std::fs::read_to_string(&b).unwrap();
    files(&[&a, &b])
        .modify(|config| {
            config.contexts.insert("new".into(), Context { cluster: "b".into(), ..Context::default() });
            config.current_context = "new".into();
        })
        .unwrap();
    assert!(read(&a).contexts.contains_key("new"));
    assert_eq!(read(&a).current_context, "new");
    assert_eq!(std::fs::read_to_string(&b).unwrap(), before, "a file without changes is not touched");

    files(&[&a, &b]).modify(|config| config.clusters.get_mut("b").unwrap().server = "https://new".into()).unwrap();
    assert_eq!(read(&b).clusters["b"].server, "https://new");
    assert_eq!(read(&b).clusters["b"].certificate_authority, Some("ca".into()), "paths are relative again");
    assert!(!read(&a).clusters.contains_key("b"));
}

#[test]
fn deleted_entry_is_removed_from_all_files() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    files(&[&a, &b])
        .modify(|config| {
            config.clusters.insert("b".into(), cluster("https://replaced"));
            config.clusters.remove("a");
        })
        .unwrap();
    assert_eq!(read(&b).clusters["b"].server, "https://replaced");
    let left = files(&[&a, &b]).load().unwrap();
    assert_eq!(left.clusters.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn last_entry_of_a_file_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (a, missing) = (dir.path().join("a"), dir.path().join("missing"));
    std::fs::write(&a, "users: [{name: me, user: {token: t}}]").unwrap();
    files(&[&a, &missing]).modify(|config| config.users.clear()).unwrap();
    assert!(read(&a).is_empty());
    assert!(!missing.exists());
}

#[test]
fn unchanged_configuration_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let before = [&a, &b].map(|path| std::fs::read(path).unwrap());
    files(&[&a, &b]).modify(|_| {}).unwrap();
    assert_eq!([&a, &b].map(|path| std::fs::read(path).unwrap()), before);
}

#[test]
fn new_file_is_private_and_directories_are_created() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home/.kube/config");
    Files::explicit(&path)
        .modify(|config| {
            config.users.insert("me".into(), AuthInfo { token: Some(Secret::new("t")), ..AuthInfo::default() });
        })
        .unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read(&path).kind, "Config");
    assert_eq!(read(&path).users["me"].token.as_ref().map(Secret::expose), Some("t"));
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["config"], "no lock or temporary file remains");
}

/// A file created by `sudo tool` would belong to root, and the user could not read it.
#[test]
fn written_file_keeps_inode_owner_mode_and_links() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("config"), dir.path().join("other"));
    std::fs::write(&path, "users: [{name: me, user: {token: a-long-token-which-goes}}]").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::hard_link(&path, &other).unwrap();
    let identity =
        || std::fs::metadata(&path).map(|file| (file.ino(), file.uid(), file.gid(), file.mode(), file.nlink()));
    let before = identity().unwrap();
    for change in [
        |config: &mut Kubeconfig| config.users.clear(),
        |config: &mut Kubeconfig| config.current_context = "x".repeat(9000),
    ] {
        Files::explicit(&path).modify(change).unwrap();
        assert_eq!(identity().unwrap(), before);
    }
    Kubeconfig::default().write_to(&path).unwrap();
    assert_eq!(identity().unwrap(), before);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), Kubeconfig::default().to_yaml().unwrap(), "no file remains");
    assert_eq!(read(&other), Kubeconfig::default());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nor next to it");
}

#[test]
fn dangling_link_is_followed_when_the_file_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    symlink(&target, &link).unwrap();
    Files::explicit(&link).modify(|config| config.current_context = "x".into()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read(&target).current_context, "x");
    assert_eq!(std::fs::metadata(&target).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn symlink_stays_a_symlink() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    std::fs::write(&target, "").unwrap();
    symlink(&target, &link).unwrap();
    Files::explicit(&link).modify(|config| config.current_context = "x".into()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read(&target).current_context, "x");
}

/// Otherwise, locking the file twice would fail, and the second write would lose half of the
/// change.
#[test]
fn file_with_several_names_is_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("config"), dir.path().join("link"));
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    symlink(&file, &link).unwrap();
    let detour = dir.path().join("sub/../config");
    for names in [[&file, &detour], [&detour, &file], [&file, &link], [&link, &file], [&link, &detour]] {
        std::fs::write(&file, "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: {}}]\n")
            .unwrap();
        let files = files(&names.map(|path| path.as_path()));
        files
            .modify(|config| {
                config.current_context = "new".into();
                config.clusters.get_mut("a").unwrap().server = "https://new".into();
                config.users.clear();
            })
            .unwrap();
        let written = read(&file);
        assert_eq!((written.current_context.as_str(), written.users.len()), ("new", 0), "{names:?}");
        assert_eq!(written.clusters["a"].server, "https://new", "{names:?}");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }
    // A file that does not exist yet can also have several names.
    std::fs::remove_file(&file).unwrap();
    files(&[&detour, &file]).modify(|config| config.current_context = "x".into()).unwrap();
    assert_eq!(read(&file).current_context, "x");
}

#[test]
fn locked_file_is_unchanged_and_lock_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let lock = dir.path().join("b.lock");
    std::fs::write(&lock, "").unwrap();
    let error = files(&[&a, &b]).modify(|config| config.current_context = "x".into()).unwrap_err();
    assert!(matches!(&error, Error::Locked { lock: found } if *found == lock), "{error}");
    assert!(error.to_string().contains("remove"), "{error}");
    assert!(!dir.path().join("a.lock").exists(), "the acquired locks are released");
    std::fs::remove_file(&lock).unwrap();
    files(&[&a, &b]).modify(|config| config.current_context = "x".into()).unwrap();
}

#[test]
fn modify_does_not_block_on_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (sender, changed) = std::sync::mpsc::channel();
    let file = pipe.clone();
    std::thread::spawn(move || sender.send(Files::explicit(file).modify(|config| config.current_context = "x".into())));
    let changed = changed.recv_timeout(std::time::Duration::from_secs(10)).expect("the change blocks");
    assert!(matches!(changed, Err(Error::Read { path, .. }) if path == pipe));
    assert!(!dir.path().join("pipe.lock").exists());
}

#[test]
fn panicking_change_writes_nothing_and_removes_locks() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let before = [&a, &b].map(|path| std::fs::read(path).unwrap());
    let panicking = std::panic::AssertUnwindSafe(|| {
        files(&[&a, &b]).modify(|config| {
            config.clusters.clear();
            panic!("of the caller");
        })
    });
    assert!(std::panic::catch_unwind(panicking).is_err());
    assert_eq!([&a, &b].map(|path| std::fs::read(path).unwrap()), before);
    files(&[&a, &b]).modify(|config| config.current_context = "x".into()).unwrap();
}

#[test]
fn invalid_file_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    std::fs::write(&path, "clusters: [").unwrap();
    let error = Files::explicit(&path).modify(|config| config.current_context = "x".into()).unwrap_err();
    assert!(matches!(error, Error::Parse { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "clusters: [");
}

#[test]
fn minified_keeps_only_the_current_context() {
    let text = "current-context: c\n\
        contexts: [{name: c, context: {cluster: a, user: u}}, {name: d, context: {cluster: b, user: v}}]\n\
        clusters: [{name: a, cluster: {}}, {name: b, cluster: {}}]\nusers: [{name: u}, {name: v}]\n";
    let mut config = Kubeconfig::parse(text).unwrap();
    let small = config.minified().unwrap();
    let names = |config: &Kubeconfig| {
        let names = config.clusters.keys().chain(config.users.keys()).chain(config.contexts.keys());
        names.cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&small), ["a", "u", "c"]);
    config.current_context = "gone".into();
    assert!(config.minified().unwrap_err().is_context_not_found());
    config.current_context.clear();
    assert!(matches!(config.minified().unwrap_err(), Error::NoContext { .. }));
}

#[test]
fn flattened_is_self_contained() {
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("pem");
    std::fs::write(&pem, "content").unwrap();
    let mut config = Kubeconfig::default();
    config
        .clusters
        .insert("a".into(), ClusterInfo { certificate_authority: Some(pem.clone()), ..cluster("https://a") });
    let user = AuthInfo { client_certificate: Some(pem.clone()), client_key: Some(pem), ..AuthInfo::default() };
    config.users.insert("u".into(), user);
    let flat = config.flattened().unwrap();
    let content = Some(Data(b"content".to_vec()));
    assert_eq!(flat.clusters["a"].certificate_authority_data, content);
    assert_eq!((&flat.users["u"].client_certificate_data, &flat.users["u"].client_key_data), (&content, &content));
    assert_eq!((&flat.clusters["a"].certificate_authority, &flat.users["u"].client_key), (&None, &None));

    for unusable in [dir.path().join("gone"), "/dev/zero".into(), dir.path().into()] {
        config.clusters.get_mut("a").unwrap().certificate_authority = Some(unusable);
        assert!(matches!(config.flattened().unwrap_err(), Error::Read { .. }));
    }
    std::fs::File::create(dir.path().join("large")).unwrap().set_len((16 << 20) + 1).unwrap();
    config.clusters.get_mut("a").unwrap().certificate_authority = Some(dir.path().join("large"));
    assert!(config.flattened().unwrap_err().to_string().contains("larger than"));
}

#[test]
fn redacted_and_debug_show_no_secret() {
    let more = "tokn: hush, extensions: [{name: e, extension: {key: hush}}]";
    let text = format!(
        "{{clusters: [{{name: a, cluster: {{server: 'https://me:hush@a', proxy-url: 'http://me:hush@p', \
         certificate-authority-data: Y2E=, {more}}}}}], \
         users: [{{name: u, user: {{token: hush, password: hush, client-key-data: aHVzaA==, \
         auth-provider: {{name: oidc, config: {{id-token: hush}}}}, {more}, \
         exec: {{command: login, args: [hush], env: [{{name: A, value: hush}}], tokn: hush}}}}}}], \
         contexts: [{{name: c, context: {{cluster: a, user: u, {more}}}}}], {more}}}"
    );
    let config = Kubeconfig::parse(&text).unwrap();
    let shown = config.redacted().to_yaml().unwrap();
    assert!(!shown.contains("hush") && !shown.contains("aHVzaA"), "{shown}");
    assert!(shown.contains("login") && shown.contains("Y2E=") && shown.contains("tokn"), "{shown}");
    let short = config.shortened().to_yaml().unwrap();
    assert!(!short.contains("Y2E="), "{short}");
    let debug = format!("{config:?}");
    assert!(debug.matches("tokn").count() == 4, "{debug}");
    assert!(!debug.contains("hush") && debug.contains("https://a") && debug.contains("http://p"), "{debug}");
    let [server, proxy_url] = ["https://me:hush@a", "http://me:hush@p"].map(|url| Some(url.to_owned()));
    let overrides = Overrides { server, proxy_url, password: Some(Secret::new("hush")), ..Overrides::default() };
    let debug = format!("{overrides:?} {:?}", config.client_config(&overrides));
    assert!(!debug.contains("hush") && debug.contains("https://a") && debug.contains("http://p"), "{debug}");
    assert!(config.to_yaml().unwrap().contains("hush"), "writing keeps them");
}

#[test]
fn extensions_are_changed_in_the_file_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::write(&a, "extensions: [{name: x, extension: 1}]\n").unwrap();
    std::fs::write(&b, "extensions: [{name: y, extension: 2}]\npreferences: {colors: true}\nfuture: 1\n").unwrap();
    files(&[&a, &b])
        .modify(|config| {
            config.extensions.remove("y");
            config.other.remove("preferences");
            config.other.insert("future".into(), 2.into());
        })
        .unwrap();
    let left = files(&[&a, &b]).load().unwrap();
    assert_eq!(left.extensions.keys().collect::<Vec<_>>(), ["x"]);
    assert_eq!(serde_json::Value::from(left.other), serde_json::json!({"future": 2}));
}

#[test]
fn file_of_similar_name_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (path, similar) = (dir.path().join("config"), dir.path().join("config.new"));
    std::fs::write(&similar, "mine").unwrap();
    Files::explicit(&path).modify(|config| config.current_context = "x".into()).unwrap();
    assert_eq!(read(&path).current_context, "x");
    assert_eq!(std::fs::read_to_string(&similar).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no other file remains");
}
