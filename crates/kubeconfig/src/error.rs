//! The error types of this crate.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pintle_meta::ApiError;
use thiserror::Error as ThisError;

/// An error from loading, using or writing a configuration.
///
/// Error messages name the file, suggest a fix, and do not contain secrets.
///
/// # Examples
///
/// ```
/// use pintle_kubeconfig::{Kubeconfig, Overrides};
///
/// let kubeconfig = Kubeconfig::parse("contexts: [{name: blue}, {name: green}]")?;
/// let red = Overrides { context: Some("red".into()), ..Overrides::default() };
/// let error = kubeconfig.client_config(&red).unwrap_err();
/// assert!(error.is_context_not_found());
/// assert_eq!(error.to_string(), "context \"red\" does not exist; there are: blue, green");
/// # Ok::<(), pintle_kubeconfig::Error>(())
/// ```
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The requested context, cluster or user does not exist.
    #[error("{kind} {name:?} does not exist; {}", choices(.known))]
    NotFound {
        /// The type of the missing entry: `context`, `cluster` or `user`.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The names of all existing entries of this type.
        known: Vec<String>,
    },
    /// There is no kubeconfig, and the program does not run in a pod.
    #[error(
        "there is no configuration: no kubeconfig in {}, and this is not a pod; choose a kubeconfig file or set KUBECONFIG",
        paths(.looked_at)
    )]
    Empty {
        /// The paths that were searched for a kubeconfig.
        looked_at: Vec<PathBuf>,
    },
    /// The kubeconfig has no current context, and the overrides do not choose a context.
    #[error("no context is chosen: set current-context in the kubeconfig, or choose a context; {}", choices(.known))]
    NoContext {
        /// The names of all contexts in the kubeconfig.
        known: Vec<String>,
    },
    /// The configuration is inconsistent or incomplete, with a list of all problems.
    #[error("the kubeconfig is invalid:{}", each(.0))]
    Invalid(Vec<Problem>),
    /// Several kubeconfig files cannot be used, with one error per file.
    #[error("{} files cannot be used:{}", .0.len(), each(.0))]
    Many(Vec<Error>),
    /// The program does not run in a pod.
    #[error("this is not a pod: {variable} is not set")]
    NotInCluster {
        /// The missing environment variable, which Kubernetes sets in every container.
        variable: &'static str,
    },
    /// The operating system cannot read a file.
    #[error("{path} cannot be read: {cause}", path = path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        cause: io::Error,
    },
    /// The file content is not a kubeconfig.
    #[error("{path} is not a kubeconfig: {message}", path = path.display())]
    Parse {
        /// The path of the file.
        path: PathBuf,
        /// A description of the parse error, including the line number.
        message: String,
    },
    /// The configuration cannot be written as YAML.
    #[error("the configuration cannot be written as YAML: {message}")]
    Print {
        /// The reason why the configuration cannot be written.
        message: String,
    },
    /// Another program is writing to the kubeconfig file.
    #[error(
        "{lock} exists: another program is writing the kubeconfig; if no program is writing, remove the lock file",
        lock = lock.display()
    )]
    Locked {
        /// The path of the lock file.
        lock: PathBuf,
    },
    /// The operating system cannot write a file.
    #[error("{path} cannot be written: {cause}", path = path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        cause: io::Error,
    },
}

impl Error {
    /// Returns `true` if no configuration was found, and `false` if a configuration exists but is invalid.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty { .. })
    }

    /// Returns `true` if the configuration was read but is invalid.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }

    /// Returns `true` if the requested context does not exist.
    pub fn is_context_not_found(&self) -> bool {
        matches!(self, Self::NotFound { kind: "context", .. })
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::invalid_request(error)
    }
}

/// A problem in a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file that contains the problem, if known.
    pub file: Option<PathBuf>,
    /// The line number of the field in the file, starting at 1, or the line number of its parent if the field is
    /// missing.
    pub line: Option<usize>,
    /// The path of the invalid field, such as `clusters["eu-1"].server`.
    pub field: String,
    /// A description of the problem and how to fix it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn choices(known: &[String]) -> String {
    match known {
        [] => "the kubeconfig has none".into(),
        known => format!("there are: {}", known.join(", ")),
    }
}

fn paths(paths: &[PathBuf]) -> String {
    match paths {
        [] => "any directory (HOME is not set)".into(),
        paths => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

fn each(problems: &[impl fmt::Display]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
