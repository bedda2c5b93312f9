//! Runs many cases concurrently and returns a verdict for each case.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::case::Case;
use crate::client::{Client, Trust};
use crate::compare::{Difference, compare};
use crate::session::{self, Server};

/// The tested server and the limits of a run.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL of the server, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// The token of a user in the group `system:masters`.
    pub token: String,
    /// The trusted certificate authorities for `https:` URLs.
    pub trust: Trust,
    /// The maximum number of concurrent cases. 0 is treated as 1.
    pub at_once: usize,
    /// The maximum time to wait for a response.
    pub limit: Duration,
    /// The maximum time that a step waits for a condition, even if the case allows more time. Use a low limit for the
    /// embedded server, which applies changes in milliseconds. A real cluster can take a minute to apply a change.
    pub patience: Duration,
}

/// The result of replaying a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The name of the case.
    pub name: String,
    /// All differences from the recorded responses, including differences in wording.
    pub differences: Vec<Difference>,
}

impl Verdict {
    /// Returns `true` if the case passes, possibly with differences in wording.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.differences.iter().all(|difference| difference.is_wording)
    }

    /// Returns `pass`, `fail`, or `words` for a case that passes with differences in wording.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.passes(), self.differences.is_empty()) {
            (false, _) => "fail",
            (true, false) => "words",
            (true, true) => "pass",
        }
    }
}

/// Replays the cases concurrently, and calls `done` with the verdict of each case when it ends. After the last case,
/// `replay` returns all verdicts, sorted by name.
///
/// Dropping the future stops the running cases without deleting their namespaces.
///
/// # Errors
///
/// Returns an error only for problems that affect all cases, such as an invalid URL. If a single case cannot be run,
/// its verdict contains the error as a difference.
pub async fn replay(target: &Target, cases: Vec<Case>, done: impl Fn(&Verdict)) -> anyhow::Result<Vec<Verdict>> {
    let client = Client::new(&target.url, &target.trust, target.limit)?;
    let server = Arc::new(Server { client, token: target.token.clone(), patience: target.patience });
    let places = Arc::new(Semaphore::new(target.at_once.max(1)));
    let mut cases = cases;
    // Start the slowest cases first, so that the other cases run while they wait.
    cases.sort_by(|a, b| b.longest_wait().total_cmp(&a.longest_wait()));
    let mut running = JoinSet::new();
    for case in cases {
        let (server, places) = (server.clone(), places.clone());
        running.spawn(async move {
            let _place = places.acquire().await;
            let differences = match session::run(&server, &case).await {
                Ok(ran) => compare(&case.steps, &ran),
                Err(error) => vec![Difference {
                    at: "run".to_owned(),
                    want: "the case runs".to_owned(),
                    got: format!("{error:#}"),
                    is_wording: false,
                }],
            };
            Verdict { name: case.name, differences }
        });
    }
    let mut verdicts = Vec::new();
    while let Some(joined) = running.join_next().await {
        let verdict = joined?;
        done(&verdict);
        verdicts.push(verdict);
    }
    verdicts.sort_by(|a: &Verdict, b| a.name.cmp(&b.name));
    Ok(verdicts)
}
