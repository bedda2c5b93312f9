//! Tokens from files.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use super::secret;
use crate::error::AuthError;
use crate::files::{self, FileReader};

/// A bearer token in a file that others write anew, as the kubelet does with the tokens of service accounts.
///
/// It is read again every 50 s at most, and at once when the server refuses it. While it cannot be read, the last token
/// serves on: a file may be missing for the moment in which it is replaced.
pub(crate) struct TokenFile {
    path: PathBuf,
    reader: FileReader<Result<HeaderValue, AuthError>>,
    state: Mutex<State>,
}

struct State {
    /// The header made of the last token; before the first read, of the token beside the file, if any.
    header: Option<HeaderValue>,
    /// When the file was last looked at.
    read_at: Option<Instant>,
}

const PERIOD: Duration = Duration::from_secs(50);

impl TokenFile {
    /// `token` serves until the file has been read once.
    pub(crate) fn new(path: PathBuf, token: Option<HeaderValue>) -> Self {
        let state = Mutex::new(State { header: token, read_at: None });
        Self { path, reader: FileReader::new("the token file"), state }
    }

    pub(crate) async fn header(&self) -> Result<HeaderValue, AuthError> {
        let present = {
            let state = self.lock();
            let is_fresh = state.read_at.is_some_and(|at| at.elapsed() < PERIOD);
            state.header.clone().filter(|_| is_fresh)
        };
        match present {
            Some(header) => Ok(header),
            None => self.note(self.reader.read(self.reading()).await),
        }
    }

    /// Reads the file now, however fresh the token is.
    pub(crate) async fn reread(&self) -> Result<HeaderValue, AuthError> {
        self.note(self.reader.read_anew(self.reading()).await)
    }

    fn reading(&self) -> impl FnOnce() -> Result<HeaderValue, AuthError> + use<> {
        let path = self.path.clone();
        move || token(&path)
    }

    /// What serves from now on, after a look at the file.
    fn note(&self, read: Result<Result<HeaderValue, AuthError>, &str>) -> Result<HeaderValue, AuthError> {
        let read = read.unwrap_or_else(|why| Err(fault(&self.path, why.into())));
        let last = {
            let mut state = self.lock();
            state.read_at = Some(Instant::now());
            if let Ok(header) = &read {
                state.header = Some(header.clone());
            }
            state.header.clone()
        };
        match (read, last) {
            (Err(error), Some(last)) => {
                tracing::warn!("{error}; the last token serves on");
                Ok(last)
            }
            (read, _) => read,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn token(path: &Path) -> Result<HeaderValue, AuthError> {
    let content = files::read(path).map_err(|error| fault(path, format!("it cannot be read: {error}")))?;
    header(&content).map_err(|why| fault(path, why))
}

/// The header that shows the token which a file holds.
pub(crate) fn header(content: &[u8]) -> Result<HeaderValue, String> {
    match std::str::from_utf8(content).map(str::trim) {
        Ok("") => Err("it is empty".into()),
        Ok(token) => secret("token", "Bearer", token).map_err(|error| error.to_string()),
        Err(_) => Err("it is no text".into()),
    }
}

fn fault(path: &Path, why: String) -> AuthError {
    AuthError::TokenFile { path: path.into(), why }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// That one may have seen the token which was refused.
    #[tokio::test]
    async fn what_a_refusal_has_read_is_not_what_was_being_read_before_it() {
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
