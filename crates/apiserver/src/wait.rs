//! Polls conditions in tests.

use std::time::Duration;

use tokio::time::Instant;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Polls `condition` until it returns `true` or the duration `within` has elapsed on tokio's clock. Returns `true` if any call
/// of `condition` returned `true`. `condition` is called at least once, and once more when `within` has elapsed.
///
/// # Cancel safety
///
/// Dropping the future stops polling.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use pintle_apiserver::{ApiServer, ApiServerConfig, consistently, eventually};
///
/// let server = ApiServer::start(ApiServerConfig::default()).await?;
/// let before = server.resource_version();
/// server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")?;
/// assert!(eventually(Duration::from_secs(10), async || server.resource_version() > before).await);
/// assert!(consistently(Duration::from_millis(20), async || server.audit().writes().is_empty()).await);
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub async fn eventually(within: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    let end = Instant::now() + within;
    loop {
        let is_last = Instant::now() >= end;
        if condition().await {
            return true;
        }
        if is_last {
            return false;
        }
        tokio::time::sleep_until(end.min(Instant::now() + POLL_INTERVAL)).await;
    }
}

/// Polls `condition` for the duration `during` on tokio's clock. Returns `true` if all calls of `condition` returned
/// `true`. `condition` is called at least once, and once more when `during` has elapsed.
///
/// # Cancel safety
///
/// Dropping the future stops polling.
pub async fn consistently(during: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    !eventually(during, async || !condition().await).await
}
