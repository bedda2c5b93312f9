//! The errors of this crate.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pintle_meta::ApiError;
use thiserror::Error as ThisError;

/// An error that can occur when a configuration is loaded, used or written.
///
/// Each message names the file and describes how to fix the problem. No message contains a secret.
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
    /// The configuration contains no context, cluster or user with the requested name.
    #[error("{kind} {name:?} does not exist; {}", choices(.known))]
    NotFound {
        /// The kind of the missing entry: `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// No kubeconfig exists, and the program does not run in a pod.
    #[error(
        "there is no configuration: no kubeconfig in {}, and this is not a pod; choose a kubeconfig file or set KUBECONFIG",
        paths(.looked_at)
    )]
    Empty {
        /// The paths that were searched for a kubeconfig.
        looked_at: Vec<PathBuf>,
    },
    /// The kubeconfig has no current context, and the program has not chosen another context.
    #[error("no context is chosen: set current-context in the kubeconfig, or choose a context; {}", choices(.known))]
    NoContext {
        /// The existing names.
        known: Vec<String>,
    },
    /// The configuration is inconsistent or incomplete. The list contains all problems.
    #[error("the kubeconfig is invalid:{}", each(.0))]
    Invalid(Vec<Problem>),
    /// Several files cannot be used. The list contains one error for each file that cannot be used.
    #[error("{} files cannot be used:{}", .0.len(), each(.0))]
    Many(Vec<Error>),
    /// The program does not run in a pod.
    #[error("this is not a pod: {variable} is not set")]
    NotInCluster {
        /// The environment variable that is not set. Kubernetes sets this variable in every container.
        variable: &'static str,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {cause}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        cause: io::Error,
    },
    /// The content of a file is not a kubeconfig.
    #[error("{path} is not a kubeconfig: {message}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The problem and its line.
        message: String,
    },
    /// The configuration cannot be written as YAML.
    #[error("the configuration cannot be written as YAML: {message}")]
    Print {
        /// The reason.
        message: String,
    },
    /// Another program is writing the file at the moment.
    #[error(
        "{lock} exists: another program is writing the kubeconfig; if no program is writing, remove the lock file",
        lock = lock.display()
    )]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// A file cannot be written.
    #[error("{path} cannot be written: {cause}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        cause: io::Error,
    },
}

impl Error {
    /// Returns whether the error means that there is no configuration. An invalid configuration does not count as
    /// missing.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty { .. })
    }

    /// Returns whether the error means that the configuration was read but is invalid.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }

    /// Returns whether the error means that the requested context does not exist.
    pub fn is_context_not_found(&self) -> bool {
        matches!(self, Self::NotFound { kind: "context", .. })
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::invalid_request(error)
    }
}

/// One problem of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file that contains the problem, if this file is known.
    pub file: Option<PathBuf>,
    /// The line in the file. The first line is 1. If a field is missing, this is the line of the field's parent.
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
