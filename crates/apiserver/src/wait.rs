//! Waiting for what a server or its clients will come to.

use std::time::Duration;

use tokio::time::Instant;

/// How often a condition is asked for.
const EVERY: Duration = Duration::from_millis(5);

/// Asks again and again until `condition` holds, for so long at most, by tokio's clock; answers whether it came to hold. It is asked
/// at least once, and once more at the end.
///
/// # Cancel safety
///
/// Nothing is lost but the answer.
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
        tokio::time::sleep_until(end.min(Instant::now() + EVERY)).await;
    }
}

/// Asks again and again whether `condition` holds, for so long, by tokio's clock; answers whether it always did. It is asked at least
/// once, and once more at the end.
///
/// # Cancel safety
///
/// Nothing is lost but the answer.
pub async fn consistently(during: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    !eventually(during, async || !condition().await).await
}
