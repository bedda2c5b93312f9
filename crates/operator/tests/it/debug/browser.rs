//! Opens the debug page in headless Chromium.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::troubles::Troubles;

const PROGRAMS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// The hostile text as Chromium serializes it in an element.
const ESCAPED: &str = "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;\"'&amp;\u{fffd}[31m";

/// Opens the page in light mode, in dark mode, and with the screen size of a phone. The screenshots remain in
/// `target/debug-page/` for a manual inspection.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs Chromium; `cargo xtask ci --only browser` runs it"]
async fn page_shows_all_problems_in_chromium() {
    let program = PROGRAMS.iter().find(|program| is_installed(program)).expect("Chromium is not installed");
    let troubles = Troubles::start().await;
    let failures = |json: &serde_json::Value| {
        json["controllers"][0]["failing"][0]["last_call"]["failures"].as_u64() > Some(1)
            && json["controllers"][0]["blocked"][0]["key"].is_string()
    };
    troubles.eventually("the failures and a blocked call", failures).await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug-page");
    std::fs::create_dir_all(&folder).unwrap();
    let url = format!("http://{}/debug", troubles.address);
    for (name, size, scheme) in [("light", "1280,1400", 1), ("dark", "1280,1400", 0), ("phone", "390,3000", 1)] {
        let screenshot = folder.join(name).with_extension("png");
        let flags = [
            format!("--window-size={size}"),
            format!("--blink-settings=preferredColorScheme={scheme}"),
            format!("--screenshot={}", screenshot.display()),
        ];
        let dom = run(program, &folder.join("profile"), &flags, &url).await;
        for shown in [ESCAPED, "default/broken", "default/blocking", "certificates", "website-controller"] {
            assert!(dom.contains(shown), "{name}: {shown} is missing in {dom}");
        }
        assert!(!dom.contains("<img src"), "{name}: the page contains an element of a hostile text");
        assert!(std::fs::metadata(&screenshot).unwrap().len() > 10_000, "{name}: the screenshot is empty");
    }
    troubles.stop().await;
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// Opens the page, runs its script, and returns the resulting document.
async fn run(program: &str, profile: &Path, flags: &[String], url: &str) -> String {
    let mut command = Command::new(program);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--dump-dom"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.arg("--virtual-time-budget=3000").arg(format!("--user-data-dir={}", profile.display()));
    command.args(flags).arg(url).stderr(Stdio::null()).kill_on_drop(true);
    let output = timeout(Duration::from_secs(60), command.output()).await.expect("Chromium ends").unwrap();
    assert!(output.status.success(), "{program}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
