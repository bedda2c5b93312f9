//! Finds, reads and merges kubeconfig files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::environment::Environment;
use crate::error::Error;
use crate::types::Kubeconfig;
use crate::{relative, yaml};

/// A list of kubeconfig files that are merged into a configuration, in order of precedence.
///
/// # Examples
///
/// ```
/// use pintle_kubeconfig::{Context, Environment, Files};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let (mine, ours) = (folder.path().join("mine"), folder.path().join("ours"));
/// # std::fs::write(&ours, "clusters: [{name: eu, cluster: {server: 'https://eu'}}]").unwrap();
/// let list = std::env::join_paths([&mine, &ours]).unwrap();
/// let files = Files::new(&Environment { kubeconfig: Some(list), ..Environment::of_process() });
/// assert!(files.load()?.clusters.contains_key("eu"), "a missing file is skipped");
///
/// // Changes go to the files that the entries came from.
/// files.modify(|kubeconfig| {
///     let context = Context { cluster: "eu".into(), user: "me".into(), ..Context::default() };
///     kubeconfig.contexts.insert("blue".into(), context);
///     kubeconfig.current_context = "blue".into();
/// })?;
/// assert_eq!(Files::explicit(&ours).load()?.current_context, "blue");
/// # Ok::<(), pintle_kubeconfig::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// Whether the files must exist, as with [`Files::explicit`].
    explicit: bool,
}

impl Files {
    /// Returns a list that contains only the file `path`, which must exist.
    pub fn explicit(path: impl Into<PathBuf>) -> Self {
        Self { paths: vec![path.into()], explicit: true }
    }

    /// Returns the files listed in `KUBECONFIG`. Returns `.kube/config` in the home directory if `KUBECONFIG` is unset
    /// or empty. Loading ignores files that do not exist.
    pub fn new(env: &Environment) -> Self {
        Self { paths: env.default_files(), explicit: false }
    }

    /// Returns the paths of the files, in order of precedence and without duplicates.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads and merges the files.
    ///
    /// - If several files define an entry with the same name, the first file takes precedence. The current context is
    ///   the first non-empty `current-context`.
    /// - Relative paths in a file are resolved against the directory of this file.
    /// - If no file in the list exists, the configuration is empty.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Read`] or [`Error::Parse`] if a file cannot be read or parsed. Returns [`Error::Many`] if
    /// several files cannot be read or parsed.
    pub fn load(&self) -> Result<Kubeconfig, Error> {
        let (config, mut errors) = self.load_partial();
        match errors.len() {
            0 => Ok(config),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Many(errors)),
        }
    }

    /// Reads and merges the files like [`load`](Self::load), but skips invalid files. Returns the merged configuration
    /// and the errors of the skipped files.
    pub fn load_partial(&self) -> (Kubeconfig, Vec<Error>) {
        let mut config = Kubeconfig::default();
        let mut errors = Vec::new();
        for path in &self.paths {
            match self.read(path) {
                Ok(Some(mut file)) => {
                    file.set_origin(path);
                    relative::resolve(&mut file, &directory(path));
                    config.merge(file);
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        (config, errors)
    }

    /// Reads one file without merging it, or returns `None` if the file is optional and does not exist.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Kubeconfig>, Error> {
        match read_bounded(path) {
            Ok(text) => yaml::parse(&text, path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.explicit => Ok(None),
            Err(cause) => Err(Error::Read { path: path.into(), cause }),
        }
    }
}

/// Reads a file as text, up to [`yaml::MAX_SIZE`] + 1 bytes. The size limit lets the parser reject files that are too
/// large or endless. Dropping the returned text erases it from memory, because it may contain keys.
pub(crate) fn read_bounded(path: &Path) -> io::Result<Zeroizing<String>> {
    let file = File::open(path)?;
    let most = yaml::MAX_SIZE as u64 + 1;
    let size = file.metadata().map_or(0, |file| file.len()).min(most);
    // Reserve the full capacity, because a vector that grows would leave copies of the secrets in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(size as usize + 1));
    file.take(most).read_to_end(&mut bytes)?;
    yaml::decode(bytes)
}

/// Opens a regular file, and rejects pipes and devices, because they cannot be read twice. Opening a pipe can also
/// block, and reading a device can be endless.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if path.metadata()?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Returns the directory of `file`, against which relative paths in the kubeconfig are resolved.
pub(crate) fn directory(file: &Path) -> PathBuf {
    let directory = file.parent().unwrap_or(Path::new(""));
    // Make the path absolute, so that it stays valid if the working directory changes.
    std::path::absolute(directory).unwrap_or_else(|_| directory.into())
}

impl Kubeconfig {
    /// Parses kubeconfig YAML, without resolving relative paths.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Parse`] if `text` is not a kubeconfig.
    pub fn parse(text: &str) -> Result<Self, Error> {
        yaml::parse(text, Path::new("the text"))
    }

    /// Formats the configuration as YAML, **including all secrets**. Call [`redacted`](Self::redacted) first to omit
    /// the secrets.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Print`] if the configuration contains a path that is not valid UTF-8.
    pub fn to_yaml(&self) -> Result<String, Error> {
        yaml::print(self).map(|text| text.to_string())
    }

    /// Adds all entries and settings of `other` that `self` does not have.
    pub fn merge(&mut self, other: Self) {
        fn fill<K: Ord, V>(into: &mut std::collections::BTreeMap<K, V>, from: std::collections::BTreeMap<K, V>) {
            for (name, value) in from {
                into.entry(name).or_insert(value);
            }
        }
        fn first(into: &mut String, from: String) {
            if into.is_empty() {
                *into = from;
            }
        }
        first(&mut self.api_version, other.api_version);
        first(&mut self.kind, other.kind);
        if self.current_context.is_empty() {
            (self.current_context, self.origin) = (other.current_context, other.origin);
        }
        fill(&mut self.clusters, other.clusters);
        fill(&mut self.contexts, other.contexts);
        fill(&mut self.users, other.users);
        fill(&mut self.extensions, other.extensions);
        for (name, value) in other.other {
            self.other.entry(name).or_insert(value);
        }
    }

    pub(crate) fn set_origin(&mut self, path: &Path) {
        self.origin = Some(path.into());
        let clusters = self.clusters.values_mut().map(|cluster| &mut cluster.origin);
        let contexts = self.contexts.values_mut().map(|context| &mut context.origin);
        let users = self.users.values_mut().map(|user| &mut user.origin);
        for origin in clusters.chain(contexts).chain(users) {
            *origin = Some(path.into());
        }
    }
}
