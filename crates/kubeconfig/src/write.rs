//! Writes the changes of a configuration to its files. Writes only the changed entries, each to the file that it was
//! read from.

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
    /// Changes the configuration. Reads and merges the files, calls `change`, and writes each changed entry to the file
    /// that it was read from.
    ///
    /// - New entries and the current context are written to the first file that exists, or to the first file if none
    ///   exists. Changes of extensions and of unknown fields are also written to that file, because it is unknown which
    ///   file they were read from.
    /// - Unchanged entries are kept. When a file is written, its comments, anchors and repeated keys are lost, and its
    ///   encoding becomes UTF-8.
    /// - Each file is written in place, as kubectl does. The owner, mode, inode and links of the file stay the same. A
    ///   new file is created with the mode 0600. Missing directories are created.
    /// - The file is not truncated before new content is written. After a crash, the file contains either the old or
    ///   the new content. There is one exception: the new content is written in a single write. After a crash during
    ///   this write, the file can contain a mixture of old and new content. A process that reads the file without the
    ///   lock can also see such a mixture for a short time. In contrast, kubectl truncates the file first, so after a
    ///   crash of kubectl the file can be empty or incomplete.
    /// - The list may contain several names for the same file, such as links or relative paths. Such a file is written
    ///   only once, under the first name.
    /// - Each file is locked with a lock file `FILE.lock` in the same directory. Other programs that use such lock
    ///   files, such as kubectl, cannot write the file at the same time. If `change` panics, the lock files are
    ///   removed, and no file is written.
    ///
    /// # Errors
    ///
    /// If one of these errors is returned, no file was changed:
    ///
    /// - [`Error::Read`] or [`Error::Parse`] if a file cannot be used.
    /// - [`Error::Locked`] if another program is writing a file.
    /// - [`Error::Empty`] if there is no file path to write to.
    ///
    /// Returns [`Error::Write`] or [`Error::Print`] if a file cannot be opened for writing or the disk is full. After
    /// one of these two errors, that file is unchanged, but other files may have been changed.
    pub fn modify(&self, change: impl FnOnce(&mut Kubeconfig)) -> Result<(), Error> {
        let paths = distinct(self.paths());
        let mut sorted = paths.clone();
        sorted.sort();
        let _locks = sorted.iter().map(|path| Lock::take(path)).collect::<Result<Vec<_>, _>>()?;
        let mut contents: Vec<(PathBuf, Option<Kubeconfig>)> = Vec::new();
        for path in &paths {
            // The file does not have to exist, even if the caller named it.
            let content = match path.exists() {
                // Reject named pipes. A pipe has no content to change, and opening a pipe blocks.
                true => open_regular(path)
                    .map_err(|cause| Error::Read { path: path.clone(), cause })
                    .and_then(|_| self.read(path))?,
                false => None,
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
            // Do not create an empty file. An existing file may become empty, however.
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
    /// Writes the whole configuration to one file. Like [`Files::modify`], this method writes the file in place. A new
    /// file is created with the mode 0600.
    ///
    /// # Errors
    ///
    /// - [`Error::Locked`] if another program is writing the file.
    /// - [`Error::Print`] if the configuration contains a path that is not valid UTF-8.
    /// - [`Error::Write`] if the file cannot be written. If the file cannot be opened or the disk is full, the file is
    ///   unchanged.
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let _lock = Lock::take(path)?;
        write(path, self)
    }
}

/// Returns each file only once, with the first of its names. If a file appeared under two names, it would be locked
/// twice, and the second write would overwrite the first.
fn distinct(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = HashSet::new();
    // If the file does not exist yet, canonicalize its directory.
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

/// Applies to one file those differences between `before` and `after` that concern this file. Differences that concern
/// other files are skipped.
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
    let named = |members: &serde_json::Map<_, _>| members.clone().into_iter().collect::<BTreeMap<_, _>>();
    let mut other = named(&file.other);
    changes(&mut other, &named(&before.other), &named(&after.other), |_| is_main, |_| {});
    file.other = other.into_iter().collect();
    if is_main {
        if before.current_context != after.current_context {
            file.current_context.clone_from(&after.current_context);
        }
    } else if after.current_context.is_empty() && !before.current_context.is_empty() {
        // Remove the current context from all files. If a later file kept its current context, that context would take
        // effect.
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
    // Remove the deleted entries from all files. If a later file kept an entry with the same name, that entry would
    // take effect.
    file.retain(|name, _| after.contains_key(name) || !before.contains_key(name));
    for (name, value) in after {
        let old = before.get(name);
        // If an entry is replaced, the new entry is written to the file of the old entry. The `origin` field of the new
        // entry is ignored.
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

/// Replaces the content of a file in place, as kubectl does. The file keeps its owner, mode, links and inode. A new
/// file is created with the mode 0600.
///
/// kubectl truncates the file first. This function does not. It replaces the content in three steps:
///
/// 1. Append line breaks until the file has room for the new content.
/// 2. Overwrite the whole file in a single write, with the new content followed by line breaks.
/// 3. Remove these line breaks.
///
/// Before and after each of these steps, the file contains the whole old or the whole new configuration. Only a crash
/// during the single write can therefore damage the file. If the disk is full, the first step fails, and the function
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
        // Return the error of the write. Ignore an error that occurs when the appended line breaks are removed.
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

/// A lock file, which is removed when this value is dropped.
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
        // Ignore errors. If the lock file cannot be removed, the next writer returns an error with the path of the lock
        // file.
        let _ = fs::remove_file(&self.0);
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
