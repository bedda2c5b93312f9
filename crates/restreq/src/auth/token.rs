//! Tokens from files.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::secret;
use crate::error::AuthError;

/// A bearer token in a file that others write anew, as the kubelet does with the tokens of service accounts.
///
/// It is read again every 50 s at most, and at once when the server refuses it. While it cannot be read, the last token
/// serves on: a file may be missing for the moment in which it is replaced.
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Held while reading, so that many waiting requests cause one read.
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
        Self { path, state: Mutex::new(State { header: token, read_at: None }) }
    }

    pub(crate) async fn header(&self) -> Result<HeaderValue, AuthError> {
        let mut state = self.state.lock().await;
        match &state.header {
            Some(header) if state.read_at.is_some_and(|at| at.elapsed() < PERIOD) => Ok(header.clone()),
            _ => self.read(&mut state).await,
        }
    }

    /// Reads the file now, however fresh the token is.
    pub(crate) async fn reread(&self) -> Result<HeaderValue, AuthError> {
        self.read(&mut *self.state.lock().await).await
    }

    async fn read(&self, state: &mut State) -> Result<HeaderValue, AuthError> {
        let fault = |why: String| AuthError::TokenFile { path: self.path.clone(), why };
        let token = match tokio::fs::read_to_string(&self.path).await.map(Zeroizing::new) {
            Ok(text) if text.trim().is_empty() => Err(fault("it is empty".into())),
            Ok(text) => secret("token", format!("Bearer {}", text.trim())).map_err(|error| fault(error.to_string())),
            Err(error) => Err(fault(format!("it cannot be read: {error}"))),
        };
        state.read_at = Some(Instant::now());
        match (token, &state.header) {
            (Ok(header), _) => {
                state.header = Some(header.clone());
                Ok(header)
            }
            (Err(error), Some(header)) => {
                tracing::warn!("{error}; the last token serves on");
                Ok(header.clone())
            }
            (Err(error), None) => Err(error),
        }
    }
}
