//! The shared parts of the servers that answer with constant bytes.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use hyper::body::{Body, Frame, SizeHint};

/// A response body.
pub(crate) enum Answer {
    Whole(Option<Bytes>),
    Events(BoxStream<'static, Bytes>),
}

impl Answer {
    pub(crate) fn constant(text: &'static str) -> Self {
        Self::Whole(Some(Bytes::from_static(text.as_bytes())))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Events(events) => events.poll_next_unpin(cx),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// Prints the path of a kubeconfig with a context for each name and URL, and waits until the standard input is closed.
/// The first context is the current context. `authority` is the CA certificate of the URLs with TLS, as PEM.
///
/// # Errors
///
/// Returns an error if a file cannot be written or removed, or if the standard input cannot be read.
#[allow(clippy::print_stdout, reason = "the caller of the program reads the output")]
pub fn publish(authority: &str, contexts: &[(&str, String)]) -> std::io::Result<()> {
    let folder: PathBuf = std::env::temp_dir().join(format!("pintle-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (ca, path) = (folder.join("ca.pem"), folder.join("kubeconfig"));
    std::fs::write(&ca, authority)?;
    let (mut clusters, mut named) = (String::new(), String::new());
    for (name, url) in contexts {
        let trust = if url.starts_with("https:") {
            format!(", certificate-authority: '{}'", ca.display())
        } else {
            String::new()
        };
        let _ = writeln!(clusters, "- name: {name}\n  cluster: {{server: '{url}'{trust}}}");
        let _ = writeln!(named, "- name: {name}\n  context: {{cluster: {name}, user: nobody}}");
    }
    let current = contexts.first().map_or("", |(name, _)| name);
    std::fs::write(
        &path,
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {current}\nclusters:\n{clusters}contexts:\n{named}\
             users:\n- name: nobody\n  user: {{}}\n"
        ),
    )?;
    println!("{}", path.display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    std::fs::remove_dir_all(folder)
}
