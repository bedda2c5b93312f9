use std::io;
use std::path::{Path, PathBuf};

use crate::{Environment, Error, Kubeconfig, relative, yaml};

/// The files that make up one configuration, the most important first.
///
/// ```
/// use pintle_kubeconfig::{Environment, Files};
///
/// let mut env = Environment::of_process();
/// env.kubeconfig = Some("/etc/one:/etc/two:/etc/one".into());
/// assert_eq!(Files::of(&env).paths(), ["/etc/one", "/etc/two"].map(std::path::PathBuf::from));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// Whether the one file was named and has to be there.
    explicit: bool,
}

impl Files {
    /// One file, which has to be there. Nothing else is looked at.
    pub fn explicit(path: impl Into<PathBuf>) -> Self {
        Self { paths: vec![path.into()], explicit: true }
    }

    /// The files of `KUBECONFIG`, or `.kube/config` in the home directory. Those that do not exist are left out.
    pub fn of(env: &Environment) -> Self {
        Self { paths: env.default_files(), explicit: false }
    }

    /// The files, in their order, each once.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads and merges the files.
    ///
    /// - The first file that defines a name defines all of it; the first `current-context` that is not empty wins.
    /// - Relative paths within a file mean its own directory.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is no kubeconfig; all such files are told together. That none of several files exists is no
    /// error: the configuration is empty then.
    pub fn load(&self) -> Result<Kubeconfig, Error> {
        let (config, mut errors) = self.load_what_can_be();
        match errors.len() {
            0 => Ok(config),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Many(errors)),
        }
    }

    /// As [`load`](Self::load), but goes on with the files that can be used, beside the errors of those that cannot.
    pub fn load_what_can_be(&self) -> (Kubeconfig, Vec<Error>) {
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

    /// The content of one file as it stands; `None` if it need not be there and is not.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Kubeconfig>, Error> {
        match std::fs::read_to_string(path) {
            Ok(text) => yaml::parse(&text, path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.explicit => Ok(None),
            Err(source) => Err(Error::Read { path: path.into(), source }),
        }
    }
}

/// The directory that relative paths in `file` mean.
pub(crate) fn directory(file: &Path) -> PathBuf {
    let directory = file.parent().unwrap_or(Path::new(""));
    // Relative to the working directory of now, whatever it is later.
    std::path::absolute(directory).unwrap_or_else(|_| directory.into())
}

impl Kubeconfig {
    /// Reads one text, such as the content of a file. Relative paths stay as they are.
    ///
    /// # Errors
    ///
    /// It is no kubeconfig.
    pub fn parse(text: &str) -> Result<Self, Error> {
        yaml::parse(text, Path::new("the text"))
    }

    /// The configuration as YAML, **secrets included**. See [`redacted`](Self::redacted).
    ///
    /// # Errors
    ///
    /// It holds a path that is no text.
    pub fn to_yaml(&self) -> Result<String, Error> {
        yaml::print(self)
    }

    /// Adds what `other` defines and `self` does not.
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
        first(&mut self.current_context, other.current_context);
        fill(&mut self.clusters, other.clusters);
        fill(&mut self.contexts, other.contexts);
        fill(&mut self.users, other.users);
        fill(&mut self.extensions, other.extensions);
        for (name, value) in other.other {
            self.other.entry(name).or_insert(value);
        }
    }

    pub(crate) fn set_origin(&mut self, path: &Path) {
        let clusters = self.clusters.values_mut().map(|cluster| &mut cluster.origin);
        let contexts = self.contexts.values_mut().map(|context| &mut context.origin);
        let users = self.users.values_mut().map(|user| &mut user.origin);
        for origin in clusters.chain(contexts).chain(users) {
            *origin = Some(path.into());
        }
    }
}
