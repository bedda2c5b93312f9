//! Commands that run in containers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use pintle_meta::{ApiError, RequestLine, Status};
use serde::Serialize;
use thiserror::Error as ThisError;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use crate::channels::{self, CloseSignal, Connection, End, Layout, Receiver, Sender};
use crate::websocket::WebSocket;

/// A running command in a container, returned by [`Api::exec`](crate::Api::exec) and
/// [`Api::attach`](crate::Api::attach).
///
/// The streams can be taken out of the fields, as with [`tokio::process::Child`]. If the options did not request a
/// stream, its field is `None`.
///
/// - **Backpressure**: each stream buffers at most 64 KiB plus one message. All streams share one connection. While the
///   buffer of one stream is full, the server cannot send data on any stream, so read stdout and stderr concurrently,
///   or drop the unused stream. [`wait_with_output`](Self::wait_with_output) reads both streams.
/// - **End of the input**: the input of the command is closed when [`stdin`](Self::stdin) is shut down or dropped.
///   Servers before Kubernetes 1.30 use the protocol `v4.channel.k8s.io`, which has no message for the end of the
///   input. With `v4.channel.k8s.io`, the command never sees the end of its input, and shutting down `stdin` returns an
///   error.
/// - **End of the connection**: the connection is closed when the `AttachedProcess` and all of its streams have been
///   dropped. Input that was not flushed may be lost. A command that runs without a terminal may keep running in the
///   container.
/// - **Lost connections**: if the connection is lost before the end of the output, a read returns an error.
///
/// The task that drives the connection runs on the runtime where the command was started. The task ends when the
/// connection is closed.
///
/// # Examples
///
/// ```
/// use pintle_meta::DynamicObject;
/// use pintle_restreq::{Api, ExecOptions};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// async fn echo(pods: &Api<DynamicObject>) -> Result<String, Box<dyn std::error::Error>> {
///     let mut process = pods.exec("web-1", ["cat"], &ExecOptions::with_stdin()).await?;
///     let mut stdin = process.stdin.take().expect("stdin was requested");
///     stdin.write_all(b"hello").await?;
///     stdin.shutdown().await?;
///     let mut stdout = process.stdout.take().expect("stdout was requested");
///     let mut text = String::new();
///     stdout.read_to_string(&mut text).await?;
///     process.status().await?;
///     Ok(text)
/// }
/// ```
///
/// [`tokio::process::Child`]: https://docs.rs/tokio/latest/tokio/process/struct.Child.html
pub struct AttachedProcess {
    /// The command's standard input.
    pub stdin: Option<ProcessInput>,
    /// The command's standard output. If the command runs in a terminal, this stream also contains the standard error.
    pub stdout: Option<ProcessOutput>,
    /// The command's standard error, or `None` if the command runs in a terminal.
    pub stderr: Option<ProcessOutput>,
    /// The terminal, if the options requested one.
    pub terminal: Option<Terminal>,
    connection: Connection,
    request: Arc<RequestLine>,
    protocol: &'static str,
}

/// A command's standard input. Dropping a `ProcessInput` closes the input, as described in [`AttachedProcess`].
///
/// # Cancel safety
///
/// If a write returns `Pending`, no data has been accepted.
pub struct ProcessInput(Sender);

/// The standard output or standard error of a command. When a `ProcessOutput` is dropped, all further output is
/// discarded.
///
/// # Cancel safety
///
/// If a read returns `Pending`, no data has been consumed.
pub struct ProcessOutput(Receiver);

/// A command's terminal. All clones of a `Terminal` refer to the same terminal.
#[derive(Clone)]
pub struct Terminal(Connection);

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// The number of columns.
    pub width: u16,
    /// The number of rows.
    pub height: u16,
}

/// The exit status and the complete output of a command. The `Debug` output contains only the size of the output,
/// because the output may contain a secret.
#[derive(Clone)]
pub struct CommandOutput {
    /// The standard output. If the command runs in a terminal, `stdout` also contains the standard error.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// The command's result.
    pub status: Result<(), ExecError>,
}

/// The reason why a command failed. The message names the request.
///
/// # Examples
///
/// ```
/// use pintle_restreq::{AttachedProcess, ExecError};
///
/// async fn is_present(mut test: AttachedProcess) -> Result<bool, ExecError> {
///     match test.status().await {
///         Ok(()) => Ok(true),
///         Err(error) if error.exit_code() == Some(1) => Ok(false),
///         Err(error) => Err(error),
///     }
/// }
/// ```
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum ExecError {
    /// The connection ended before the status of the command was received. The command may still be running after the
    /// connection has ended.
    #[error("{request}: the status of the command did not arrive: {message}")]
    Disconnected {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The reason why the connection ended.
        message: Box<str>,
    },
    /// The command exited with a code other than 0.
    #[error("{request}: the command ended with exit code {code}")]
    ExitCode {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The exit code.
        code: i32,
        /// The server's status.
        status: Box<Status>,
    },
    /// The server could not start the command, for example because the container does not exist or the node is
    /// unreachable, or the command was interrupted.
    #[error("{request}: {status}")]
    Failed {
        /// The method and the URL of the request.
        request: Arc<RequestLine>,
        /// The server's status.
        status: Box<Status>,
    },
}

impl ExecError {
    /// Returns the exit code if the command exited with a code other than 0.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::ExitCode { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns the status of the command that the server sent, if any.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::ExitCode { status, .. } | Self::Failed { status, .. } => Some(status),
            Self::Disconnected { .. } => None,
        }
    }
}

impl From<ExecError> for ApiError {
    fn from(error: ExecError) -> Self {
        let (request, error) = match error {
            ExecError::ExitCode { request, status, .. } | ExecError::Failed { request, status } => {
                (request, Self::from(*status))
            }
            ExecError::Disconnected { request, message } => (request, Self::transport(String::from(message))),
        };
        Self { request: Some(request), ..error }
    }
}

/// The subprotocols that the client supports, in order of preference.
pub(crate) const PROTOCOLS: [&str; 2] = [V5, "v4.channel.k8s.io"];
const V5: &str = "v5.channel.k8s.io";

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

#[derive(Clone, Copy)]
pub(crate) struct Streams {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
}

impl AttachedProcess {
    pub(crate) fn new(socket: WebSocket, protocol: &'static str, streams: Streams, request: Arc<RequestLine>) -> Self {
        let close_signal = if protocol == V5 { CloseSignal::Message } else { CloseSignal::Unsupported };
        let layout = Layout { inputs: &[STDOUT, STDERR], error: ERROR, preamble: 0, close_signal };
        let connection = channels::open(socket, layout);
        Self {
            stdin: streams.stdin.then(|| ProcessInput(connection.sender())),
            stdout: streams.stdout.then(|| ProcessOutput(connection.receiver(0))),
            stderr: streams.stderr.then(|| ProcessOutput(connection.receiver(1))),
            terminal: streams.tty.then(|| Terminal(connection.clone())),
            connection,
            request,
            protocol,
        }
    }

    /// Returns the subprotocol that the server has chosen: `v5.channel.k8s.io` or `v4.channel.k8s.io`.
    pub fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// Waits until the command ends. The method first drops the streams in the fields of this `AttachedProcess`, which
    /// closes the input and discards the output. To keep a stream, take it out of its field before calling this method.
    ///
    /// # Errors
    ///
    /// Returns [`ExecError::ExitCode`] if the exit code is not 0. Any other error means that the command could not be
    /// run, or that its status is unknown.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the status of the command is not lost, and the next call returns it. Streams that the
    /// method has already dropped are lost.
    pub async fn status(&mut self) -> Result<(), ExecError> {
        (self.stdin, self.stdout, self.stderr) = (None, None, None);
        self.wait().await
    }

    /// Closes the input of the command, and reads its output into memory until the command exits.
    ///
    /// # Errors
    ///
    /// Returns an I/O error if the connection is lost before the end of the output. A failure of the command is
    /// reported in [`CommandOutput::status`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection is closed and the output is lost.
    pub async fn wait_with_output(mut self) -> io::Result<CommandOutput> {
        self.stdin = None;
        let (mut stdout, mut stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr) = tokio::try_join!(whole(&mut stdout), whole(&mut stderr))?;
        Ok(CommandOutput { stdout, stderr, status: self.wait().await })
    }

    async fn wait(&self) -> Result<(), ExecError> {
        let request = &self.request;
        self.connection.outcome(|error, end| outcome(request, error, end)).await
    }
}

async fn whole(output: &mut Option<ProcessOutput>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(output) = output {
        output.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn outcome(request: &Arc<RequestLine>, error: &[u8], end: Option<&End>) -> Option<Result<(), ExecError>> {
    // The status may arrive in several messages, so parse all data that was received so far.
    if let Ok(status) = serde_json::from_slice::<Status>(error) {
        return Some(judge(request, status));
    }
    let end = end?;
    let message = match (error, end) {
        ([], End::Closed) => "the server closed the connection without a status".into(),
        ([], End::Lost(why)) => why.to_string(),
        (text, _) => {
            let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
            format!("the server sent {text:?} instead of a status")
        }
    };
    Some(Err(ExecError::Disconnected { request: request.clone(), message: message.into() }))
}

fn judge(request: &Arc<RequestLine>, status: Status) -> Result<(), ExecError> {
    if status.status == "Success" {
        return Ok(());
    }
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let code = causes.filter(|cause| cause.reason == "ExitCode").find_map(|cause| cause.message.parse().ok());
    let (request, status) = (request.clone(), Box::new(status));
    Err(match code {
        Some(code) => ExecError::ExitCode { request, code, status },
        None => ExecError::Failed { request, status },
    })
}

impl Terminal {
    /// Changes the terminal's size. If several sizes have not been sent yet, only the latest size is sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is already closed.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let mut message = vec![RESIZE];
        serde_json::to_writer(&mut message, &size)?;
        self.0.send_latest(Bytes::from(message)).map_err(|end| {
            let why = match end {
                End::Closed => "the command has ended".to_owned(),
                End::Lost(why) => format!("the connection to the API server was lost: {why}"),
            };
            io::Error::new(io::ErrorKind::BrokenPipe, why)
        })
    }
}

impl AsyncWrite for ProcessInput {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl AsyncRead for ProcessOutput {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

pintle_meta::debug_struct!(AttachedProcess |self| { request = format_args!("{}", self.request), protocol, .. });

pintle_meta::debug_struct!(CommandOutput |self| {
    stdout = format_args!("{} bytes", self.stdout.len()),
    stderr = format_args!("{} bytes", self.stderr.len()),
    status,
});

macro_rules! opaque {
    ($($name:ident)*) => {$(
        pintle_meta::debug_struct!($name { .. });
    )*};
}

opaque!(ProcessInput ProcessOutput Terminal);
