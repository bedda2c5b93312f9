//! Runs many cases at once and says which hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::client::{Client, Trust};
use crate::session::{self, Server};
use crate::{Case, Difference, compare};

/// What to replay against, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// `http://127.0.0.1:8080`
    pub url: String,
    /// The token of a member of `system:masters`.
    pub token: String,
    /// Whom to believe, for `https:`.
    pub trust: Trust,
    /// How many cases run at once, at least one.
    pub at_once: usize,
    /// The longest wait for an answer.
    pub limit: Duration,
    /// The longest that a step polls for something to come true, whatever the case grants. A server in this process does in
    /// milliseconds what a cluster takes a minute for.
    pub patience: Duration,
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The case's.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// Where it departs; differences of wording are among them.
    pub differences: Vec<Difference>,
}

impl Verdict {
    /// Whether the case holds, whatever the wording.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.differences.iter().all(|difference| difference.words)
    }

    /// `pass`, `words` (passes but for the wording of messages) or `fail`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.passes(), self.differences.is_empty()) {
            (false, _) => "fail",
            (true, false) => "words",
            (true, true) => "pass",
        }
    }
}

/// Replays the cases, several at once, and returns a verdict for each, by name; `done` hears of each as it comes.
///
/// Cancelling it stops the cases where they are; their namespaces stay behind.
///
/// # Errors
///
/// Only what concerns them all, like a URL that is none. A case that cannot be run fails, with the reason as difference.
pub async fn replay(target: &Target, cases: Vec<Case>, done: impl Fn(&Verdict)) -> anyhow::Result<Vec<Verdict>> {
    let client = Client::new(&target.url, &target.trust, target.limit)?;
    let server = Arc::new(Server { client, token: target.token.clone(), patience: target.patience });
    let places = Arc::new(Semaphore::new(target.at_once.max(1)));
    let mut cases = cases;
    // The slow ones first, so that they wait while the others work.
    cases.sort_by(|a, b| b.longest_wait().total_cmp(&a.longest_wait()));
    let mut running = JoinSet::new();
    for case in cases {
        let (server, places) = (server.clone(), places.clone());
        running.spawn(async move {
            let _place = places.acquire().await;
            let started = Instant::now();
            let differences = match session::run(&server, &case).await {
                Ok(ran) => compare(&case.steps, &ran),
                Err(error) => vec![Difference {
                    at: "run".to_owned(),
                    want: "to run".to_owned(),
                    got: format!("{error:#}"),
                    words: false,
                }],
            };
            Verdict { name: case.name, took: started.elapsed(), differences }
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
