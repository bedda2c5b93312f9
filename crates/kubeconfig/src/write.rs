//! Writes each changed entry of a configuration to the file that contains the entry.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::error::Error;
use crate::files::{Files, directory, open_regular};
use crate::types::Kubeconfig;
use crate::{relative, yaml};

impl Files {
    /// Reads and merges the files, calls `change`, and writes each changed entry to the file that contains the entry.
    ///
    /// - New entries, the current context, and changes to extensions and unknown fields are written to the first file
    ///   that exists. If none of the files exists, `modify` creates the first file in the list.
    /// - Entries without changes are kept. Writing a file loses its comments, anchors, repeated keys and the order of
    ///   its fields. The encoding of a written file is UTF-8.
    /// - Like kubectl, this method writes each file in place, so the file keeps its owner, mode, inode and links. A new
    ///   file has mode 0600, and missing directories are created.
    /// - The new content is written in a single write, without truncating the file first. A crash can damage a file
    ///   only during this write. During the write, a process that reads the file without locking it can see a mixture
    ///   of old and new content. In contrast, kubectl truncates the file first, so a crash of kubectl can leave an
    ///   empty or incomplete file.
    /// - A file that is listed under several names, for example as a link or a relative path, is written once, under
    ///   its first name.
    /// - Each file is locked by a lock file `FILE.lock` in the same directory. kubectl uses the same lock files. If
    ///   `change` panics, the lock files are removed, and no kubeconfig files are written.
    ///
    /// # Errors
    ///
    /// Returns these errors before changing any file:
    ///
    /// - [`Error::Read`] or [`Error::Parse`] if a file cannot be read or parsed.
    /// - [`Error::Locked`] if another program is writing to a file.
    /// - [`Error::Empty`] if the list of files is empty.
    ///
    /// Returns [`Error::Write`] or [`Error::Print`] if a file cannot be opened for writing, if the disk is full, or if
    /// a path is not valid UTF-8. The file named in the error is unchanged, but other files may already have been
    /// written.
    pub fn modify(&self, change: impl FnOnce(&mut Kubeconfig)) -> Result<(), Error> {
        let paths = distinct(self.paths());
        let mut sorted = paths.clone();
        sorted.sort();
        let _locks = sorted.iter().map(|path| Lock::take(path)).collect::<Result<Vec<_>, _>>()?;
        let mut contents: Vec<(PathBuf, Option<Kubeconfig>)> = Vec::new();
        for path in &paths {
            // The file of [`Files::explicit`] may be missing, and `modify` then creates it.
            let content = if path.exists() {
                // Check the file type first, because opening a named pipe would block.
                open_regular(path)
                    .map_err(|cause| Error::Read { path: path.clone(), cause })
                    .and_then(|_| self.read(path))?
            } else {
                None
            };
            contents.push((path.clone(), content));
        }
        let before = merged(&contents);
        let mut after = before.clone();
        change(&mut after);
        let Some(main) = contents.iter().find(|(_, content)| content.is_some()).or(contents.first()) else {
            return Err(Error::Empty { looked_at: Vec::new() });
        };
        let main = main.0.clone();
        for (path, content) in &contents {
            let mut fresh = content.clone().unwrap_or_default();
            apply(&mut fresh, &before, &after, path, &main);
            // Do not create an empty file, but allow a change to make an existing file empty.
            if fresh != content.clone().unwrap_or_default() {
                if fresh.kind.is_empty() {
                    (fresh.api_version, fresh.kind) = ("v1".into(), "Config".into());
                }
                write(path, &fresh)?;
            }
        }
        Ok(())
    }
}

impl Kubeconfig {
    /// Writes the entire configuration to one file, in place like [`Files::modify`]. A new kubeconfig file has mode 0600.
    ///
    /// # Errors
    ///
    /// - [`Error::Locked`] if another program is writing to the file.
    /// - [`Error::Print`] if the configuration contains a path that is not valid UTF-8.
    /// - [`Error::Write`] if the file cannot be written. If the kubeconfig file cannot be opened or the disk is full,
    ///   it remains unchanged.
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let _lock = Lock::take(path)?;
        write(path, self)
    }
}

/// Returns each file once, under its first name in the list. If a file were listed under two names, locking it twice
/// would fail, and the second write would overwrite the first.
fn distinct(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = HashSet::new();
    // For a missing file, canonicalize its directory, because only existing paths can be canonicalized.
    let file = |path: &Path| match (path.canonicalize(), directory(path).canonicalize(), path.file_name()) {
        (Ok(file), ..) => file,
        (_, Ok(folder), Some(name)) => folder.join(name),
        _ => path.into(),
    };
    paths.iter().filter(|path| files.insert(file(path))).cloned().collect()
}

fn merged(contents: &[(PathBuf, Option<Kubeconfig>)]) -> Kubeconfig {
    let mut whole = Kubeconfig::default();
    for (path, content) in contents {
        if let Some(mut content) = content.clone() {
            content.set_origin(path);
            relative::resolve(&mut content, &directory(path));
            whole.merge(content);
        }
    }
    whole
}

/// Applies the differences between `before` and `after` to `file`, the content of `path`. Skips changes that belong to
/// other files.
fn apply(file: &mut Kubeconfig, before: &Kubeconfig, after: &Kubeconfig, path: &Path, main: &Path) {
    let is_main = path == main;
    let home = directory(path);
    let of_file = |origin: &Option<PathBuf>| origin.as_deref().map_or(is_main, |origin| origin == path);
    changes(
        &mut file.clusters,
        &before.clusters,
        &after.clusters,
        |cluster| of_file(&cluster.origin),
        |cluster| {
            cluster.origin = None;
            relative::relativize_cluster(cluster, &home);
        },
    );
    changes(
        &mut file.users,
        &before.users,
        &after.users,
        |user| of_file(&user.origin),
        |user| {
            user.origin = None;
            relative::relativize_user(user, &home);
        },
    );
    changes(
        &mut file.contexts,
        &before.contexts,
        &after.contexts,
        |context| of_file(&context.origin),
        |context| {
            context.origin = None;
        },
    );
    changes(&mut file.extensions, &before.extensions, &after.extensions, |_| is_main, |_| {});
    let sorted_members = |members: &serde_json::Map<_, _>| members.clone().into_iter().collect::<BTreeMap<_, _>>();
    let mut other = sorted_members(&file.other);
    changes(&mut other, &sorted_members(&before.other), &sorted_members(&after.other), |_| is_main, |_| {});
    file.other = other.into_iter().collect();
    if is_main {
        if before.current_context != after.current_context {
            file.current_context.clone_from(&after.current_context);
        }
    } else if after.current_context.is_empty() && !before.current_context.is_empty() {
        // Clear the current context in all files, because a current context in a later file would otherwise take effect.
        file.current_context.clear();
    }
}

fn changes<V: Clone + PartialEq>(
    file: &mut BTreeMap<String, V>,
    before: &BTreeMap<String, V>,
    after: &BTreeMap<String, V>,
    of_file: impl Fn(&V) -> bool,
    prepare: impl Fn(&mut V),
) {
    // Remove deleted entries from all files, because an entry with the same name in a later file would otherwise take
    // effect.
    file.retain(|name, _| after.contains_key(name) || !before.contains_key(name));
    for (name, value) in after {
        let old = before.get(name);
        // A new entry replaces the old entry in the old entry's file, even if the new entry has another `origin`.
        if old != Some(value) && of_file(old.unwrap_or(value)) {
            let mut value = value.clone();
            prepare(&mut value);
            file.insert(name.clone(), value);
        }
    }
}

fn write(path: &Path, config: &Kubeconfig) -> Result<(), Error> {
    let text = yaml::print(config)?;
    overwrite(path, text.as_bytes()).map_err(|cause| Error::Write { path: path.into(), cause })
}

/// Replaces the content of a file in place, like kubectl, so the file keeps its owner, mode, links and inode. A new
/// file has mode 0600.
///
/// Unlike kubectl, `overwrite` does not truncate the file first, but replaces the content in three steps:
///
/// 1. Append line breaks until the file is large enough for the new content.
/// 2. Overwrite the file in a single write with the new content, followed by line breaks.
/// 3. Remove the trailing line breaks.
///
/// A crash can damage the file only during the single write. If the disk is full, the first step fails, and `overwrite`
/// removes the appended line breaks.
fn overwrite(path: &Path, text: &[u8]) -> io::Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let (old, new) = (file.metadata()?.len(), text.len() as u64);
    let grow = |file: &mut File| {
        file.seek(SeekFrom::Start(old))?;
        file.write_all(&vec![b'\n'; new.saturating_sub(old) as usize])?;
        file.sync_data()
    };
    if let Err(cause) = grow(&mut file) {
        // Return the error of the write, even if `set_len` also fails.
        let _ = file.set_len(old);
        return Err(cause);
    }
    let mut padded = Zeroizing::new(Vec::with_capacity(old.max(new) as usize));
    padded.extend_from_slice(text);
    padded.resize(old.max(new) as usize, b'\n');
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&padded)?;
    file.set_len(new)?;
    file.sync_all()
}

struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, Error> {
        let fault = |cause| Error::Write { path: path.into(), cause };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory).map_err(fault)?;
        }
        let lock = beside(path, ".lock");
        match OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Locked { lock }),
            Err(cause) => Err(fault(cause)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Ignore the error: the next attempt to lock the kubeconfig reports the remaining lock file.
        let _ = fs::remove_file(&self.0);
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
