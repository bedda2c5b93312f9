//! Reads token files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use pintle_meta::__private::Mutex;
use pintle_transport::authorization::secret;
use pintle_transport::files::{self, FileReader};
use tokio::time::Instant;

use crate::error::AuthError;

/// A bearer token that is read from a file. Another program, such as the kubelet, updates the file regularly.
///
/// The client reads the file again 50 s after the last read, and immediately if the server rejects the token. If the
/// file cannot be read, for example while it is being replaced, the client continues to use the last token.
pub(crate) struct TokenFile {
    path: PathBuf,
    reader: FileReader<Result<HeaderValue, AuthError>>,
    state: Mutex<State>,
}

struct State {
    /// The header with the last token from the file, or with the configured token until the file has been read.
    header: Option<HeaderValue>,
    read_at: Option<Instant>,
}

const PERIOD: Duration = Duration::from_secs(50);

impl TokenFile {
    /// Creates a source that returns `token` until the file has been read.
    pub(crate) fn new(path: PathBuf, token: Option<HeaderValue>) -> Self {
        let state = Mutex::new(State { header: token, read_at: None });
        Self { path, reader: FileReader::new("the token file"), state }
    }

    pub(crate) async fn header(&self) -> Result<HeaderValue, AuthError> {
        match self.present() {
            Some(header) => Ok(header),
            None => Box::pin(async { self.record_read(self.reader.read(self.reading()).await) }).await,
        }
    }

    /// Returns the header if the file was read less than 50 s ago.
    fn present(&self) -> Option<HeaderValue> {
        let state = self.state.lock();
        let is_fresh = state.read_at.is_some_and(|at| at.elapsed() < PERIOD);
        state.header.clone().filter(|_| is_fresh)
    }

    pub(crate) async fn reread(&self) -> Result<HeaderValue, AuthError> {
        self.record_read(self.reader.read_again(self.reading()).await)
    }

    fn reading(&self) -> impl FnOnce() -> Result<HeaderValue, AuthError> + use<> {
        let path = self.path.clone();
        move || token(&path)
    }

    /// Stores the result of a file read, and returns the header to use.
    fn record_read(&self, read: Result<Result<HeaderValue, AuthError>, &str>) -> Result<HeaderValue, AuthError> {
        let read = read.unwrap_or_else(|why| Err(fault(&self.path, why.into())));
        let last = {
            let mut state = self.state.lock();
            state.read_at = Some(Instant::now());
            if let Ok(header) = &read {
                state.header = Some(header.clone());
            }
            state.header.clone()
        };
        match (read, last) {
            (Err(error), Some(last)) => {
                tracing::warn!("{error}; the last token stays in use");
                Ok(last)
            }
            (read, _) => read,
        }
    }
}

fn token(path: &Path) -> Result<HeaderValue, AuthError> {
    let content = files::read(path).map_err(|error| fault(path, format!("it cannot be read: {error}")))?;
    header(&content).map_err(|why| fault(path, why))
}

pub(crate) fn header(content: &[u8]) -> Result<HeaderValue, String> {
    match std::str::from_utf8(content).map(str::trim) {
        Ok("") => Err("it is empty".into()),
        Ok(token) => secret("token", "Bearer", token).map_err(|error| error.to_string()),
        Err(_) => Err("it is not UTF-8 text".into()),
    }
}

fn fault(path: &Path, why: String) -> AuthError {
    AuthError::TokenFile { path: path.into(), why }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A read that started before the server rejected the token may still return the rejected token.
    #[tokio::test]
    async fn rejected_token_is_not_replaced_by_an_earlier_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "new").unwrap();
        let file = TokenFile::new(path, None);
        let (go, gate) = mpsc::channel();
        let earlier = file.reader.read(move || {
            gate.recv().unwrap();
            header(b"old").map_err(|why| fault(Path::new("token"), why))
        });
        let (_, reread, ()) = tokio::join!(earlier, file.reread(), async { go.send(()).unwrap() });
        assert_eq!(reread.unwrap(), "Bearer new");
    }
}
