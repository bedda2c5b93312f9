//! Tests of a program that receives a real signal.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_operator::{Action, Context, Controller, Manager, Result};

use crate::support::{Website, World};

/// This variable is set in the child process.
const CHILD: &str = "PINTLE_TEST_SIGTERM_CHILD";
/// The line that the child prints when it is ready for the signal.
const READY: &str = "reconciling default/blog";
/// The time limit for stopping the child.
const LIMIT: Duration = Duration::from_millis(500);

/// The test starts its own program again as the child process.
#[test]
fn sigterm_ends_the_program_and_names_unfinished_keys() -> Result<()> {
    if env::var_os(CHILD).is_some() {
        return child();
    }
    let mut child = start();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(READY) {
        line.clear();
        assert_ne!(
            output.read_line(&mut line).unwrap(),
            0,
            "the child ended before it was ready: {}",
            errors(&mut child)
        );
    }
    let signalled = Instant::now();
    send_sigterm(&child);
    let status = child.wait().unwrap();
    let took = signalled.elapsed();
    let errors = errors(&mut child);
    assert!(!status.success(), "{status}: {errors}");
    assert!(errors.contains("stopping signal=\"SIGTERM\""), "{errors}");
    assert!(errors.contains("in flight: default/blog"), "{errors}");
    // The limit is much longer than the time limit of the program, because the machine may be busy.
    assert!(took < Duration::from_secs(20), "{took:?}: {errors}");
    Ok(())
}

fn start() -> Child {
    let name = "signal::sigterm_ends_the_program_and_names_unfinished_keys";
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(CHILD, "1").env("NO_COLOR", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send_sigterm(child: &Child) {
    let kill = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &child.id().to_string()]).status().unwrap();
    assert!(kill.success(), "{kill}");
}

fn errors(child: &mut Child) -> String {
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    errors
}

/// The program: an operator whose only call never ends.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn child() -> Result<()> {
    let world = World::with_site("blog").await;
    let controller = Controller::<Website>::new().reconcile(async |_: Arc<Website>, cx: Context<Website>| {
        // Do not use `println!`, because the test harness may capture it.
        writeln!(std::io::stdout(), "reconciling {}", cx.key())?;
        std::future::pending::<Result<Action>>().await
    });
    let manager: Manager = world.manager().controller(controller).shutdown_timeout(LIMIT);
    manager.run_until_signal().await
}
