//! Sets up logging.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Writes the program's logs to stderr, filtered by the environment variable `RUST_LOG`. The default level is `info`.
/// This function does nothing if a tracing subscriber is already installed.
///
/// [`Manager::run_until_signal`](crate::Manager::run_until_signal) calls this function. For JSON, log files or
/// OpenTelemetry, install your own subscriber first.
///
/// # Examples
///
/// ```
/// pintle_operator::init_tracing();
/// tracing::info!("a line on stderr");
/// ```
pub fn init_tracing() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    // Ignore the error, which means that a subscriber is already installed.
    _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
