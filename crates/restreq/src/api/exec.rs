//! Runs commands in containers.

use http::Method;
use pintle_meta::{ApiError, InvalidKey, ObjectKey};

use super::Api;
use crate::error::InvalidRequest;
use crate::process::{AttachedProcess, PROTOCOLS, Streams};
use crate::request::Request;

/// Options for [`Api::exec`] and [`Api::attach`]. By default, the client reads stdout and stderr of the pod's default
/// container.
///
/// # Examples
///
/// ```
/// use pintle_restreq::ExecOptions;
///
/// let sidecar = ExecOptions { container: "proxy".into(), ..ExecOptions::with_stdin() };
/// assert!(sidecar.stdin && sidecar.stdout && sidecar.stderr && !sidecar.tty);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOptions {
    /// The container's name. If the name is empty, the server uses the container in the annotation
    /// `kubectl.kubernetes.io/default-container`, or the only container of the pod.
    pub container: String,
    /// Whether the standard input of the command is connected to the client.
    pub stdin: bool,
    /// Whether the client receives the standard output of the command.
    pub stdout: bool,
    /// Whether the client receives the standard error of the command. This field is ignored if `tty` is `true`, because
    /// a terminal merges stdout and stderr.
    pub stderr: bool,
    /// Whether to allocate a terminal for the command.
    pub tty: bool,
}

impl Default for ExecOptions {
    fn default() -> Self {
        Self { container: String::new(), stdin: false, stdout: true, stderr: true, tty: false }
    }
}

impl ExecOptions {
    /// Returns options that connect stdin, stdout and stderr.
    pub fn with_stdin() -> Self {
        Self { stdin: true, ..Self::default() }
    }

    /// Returns options for an interactive command in a terminal, such as a shell.
    pub fn terminal() -> Self {
        Self { tty: true, stderr: false, ..Self::with_stdin() }
    }

    fn streams(&self) -> Streams {
        Streams { stdin: self.stdin, stdout: self.stdout, stderr: self.stderr && !self.tty, tty: self.tty }
    }

    fn apply(&self, request: Request) -> Request {
        let streams = self.streams();
        let request = match streams {
            Streams { stdin: false, stdout: false, stderr: false, .. } => request.keep(InvalidRequest::Mismatch(
                "the options request no stream; request stdin, stdout or stderr".into(),
            )),
            _ => request,
        };
        let bool_text = |flag: bool| if flag { "true" } else { "false" };
        let request = request
            .param("stdin", bool_text(streams.stdin))
            .param("stdout", bool_text(streams.stdout))
            .param("stderr", bool_text(streams.stderr))
            .param("tty", bool_text(streams.tty));
        if self.container.is_empty() { request } else { request.param("container", self.container.as_str()) }
    }
}

impl<T> Api<T> {
    /// Runs a command in a container of a pod, without a shell. This method returns once the connection is established.
    /// The command may start after the method has returned.
    ///
    /// The user needs the verbs `get` and `create` on `pods/exec`. The client opens a separate HTTP/1.1 connection for
    /// the WebSocket. All proxies between the client and the server must support WebSockets.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the pod does not exist, or another error if this `Api` is not for pods or the request
    /// fails. If the connection is lost, the request is not retried, because the command may have run.
    /// [`AttachedProcess::status`] returns later failures, such as an unknown container.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime, or if the timers of the runtime are not enabled.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection is closed, and it is unknown whether the command has run.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::DynamicObject;
    /// use pintle_restreq::{Api, ExecOptions};
    ///
    /// async fn hostname(pods: &Api<DynamicObject>) -> Result<String, Box<dyn std::error::Error>> {
    ///     let process = pods.exec("web-1", ["hostname", "-f"], &ExecOptions::default()).await?;
    ///     let output = process.wait_with_output().await?;
    ///     output.status?;
    ///     Ok(String::from_utf8(output.stdout)?)
    /// }
    /// ```
    pub async fn exec<S: AsRef<str>>(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        command: impl IntoIterator<Item = S>,
        options: &ExecOptions,
    ) -> Result<AttachedProcess, ApiError> {
        let mut command = command.into_iter().peekable();
        let request = self.on_object_of("", &["pods"], self.client.verb(Method::GET), key).subresource(["exec"]);
        let request = match command.peek() {
            Some(_) => command.fold(request, |request, word| request.param("command", word.as_ref())),
            None => request.keep(InvalidRequest::Mismatch("the command is empty; give a program to run".into())),
        };
        process(request, options).await
    }

    /// Attaches to the main process of a container.
    ///
    /// The user needs the verbs `get` and `create` on `pods/attach`. The process only receives input if `stdin` is
    /// `true` for its container. The client does not receive output that the process has written before the call.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`exec`](Self::exec).
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime, or if the timers of the runtime are not enabled.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection is closed.
    pub async fn attach(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &ExecOptions,
    ) -> Result<AttachedProcess, ApiError> {
        let request = self.on_object_of("", &["pods"], self.client.verb(Method::GET), key).subresource(["attach"]);
        process(request, options).await
    }
}

async fn process(request: Request, options: &ExecOptions) -> Result<AttachedProcess, ApiError> {
    let (socket, protocol, line) = options.apply(request).websocket(&PROTOCOLS).await?;
    Ok(AttachedProcess::new(socket, protocol, options.streams(), line))
}
