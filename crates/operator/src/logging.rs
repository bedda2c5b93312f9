//! Sets up the logs of programs.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Prints the program's logs to stderr. The environment variable `RUST_LOG` determines which logs are printed. Without
/// this variable, logs of the level `info` and above are printed. Does nothing if the program has installed a tracing
/// subscriber.
///
/// [`Manager::run_until_signal`](crate::Manager::run_until_signal) calls this function. To write JSON, to write to
/// files or to use OpenTelemetry, install your own subscriber first.
///
/// # Examples
///
/// ```
/// pintle_operator::init_tracing();
/// tracing::info!("a line on stderr");
/// ```
pub fn init_tracing() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    // Ignore an error. An error means that the program has installed a subscriber. The program's subscriber stays in
    // use.
    _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
