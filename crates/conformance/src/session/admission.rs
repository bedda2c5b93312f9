//! The steps about webhooks and policies: `READY` and `CALLS`.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep};

use super::{Session, content, request};
use crate::ready::{Probe, lease};
use crate::responder::Responder;
use crate::{Json, Step, StepHeaders};

/// The maximum time until a new admission object is active.
const READY_PATIENCE: Duration = Duration::from_secs(15);

impl Session<'_> {
    /// Starts the webhooks of the case, and sets the variables with their URL and their certificates.
    pub(super) async fn start_webhooks(&mut self, webhooks: Option<&Json>) -> anyhow::Result<()> {
        let responder = Responder::start().await?;
        for (name, value) in responder.variables() {
            self.known.save(name, &Json::Text(value));
        }
        if let Some(webhooks) = webhooks {
            responder.set_behaviours(&self.known.fill_json(webhooks)?)?;
        }
        self.responder = Some(responder);
        Ok(())
    }

    /// Waits until all admission objects of a kind that were created before this call are active. To detect this, the method creates a
    /// probe, waits until a dry run shows its effect, and deletes the probe. Admission objects become active in the order of their
    /// creation.
    pub(super) async fn ready(&mut self, of: &str) -> anyhow::Result<()> {
        self.probes += 1;
        let probe = Probe::new(of, self.known.fill(&format!("zz-{}.${{id}}.example.org", self.probes))?)?;
        let felt = self.wait_for_effect(&probe).await;
        for (path, _) in probe.objects().iter().rev() {
            self.send(&request("DELETE", &format!("{path}/{}", probe.name), None)).await?;
        }
        felt
    }

    async fn wait_for_effect(&self, probe: &Probe) -> anyhow::Result<()> {
        for (path, object) in probe.objects() {
            let answer = self.send(&request("POST", &path, Some(&object.to_string()))).await?;
            ensure!(answer.status == 201, "POST {path}: {} {}", answer.status, content(&answer));
        }
        let path = "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases?dryRun=All";
        let create = request("POST", path, Some(&lease().to_string()));
        let granted = READY_PATIENCE.min(self.server.patience);
        let deadline = Instant::now() + granted;
        loop {
            let answer = self.send(&create).await?;
            if probe.has_effect(&answer, self.responder.as_ref())? {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not in force after {granted:?}: {}", content(&answer));
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the calls since the last `CALLS` step, in the recorded form.
    pub(super) fn calls(&mut self, step: &Step) -> anyhow::Result<Json> {
        let path = step.path.as_deref().map(|path| self.known.fill(path)).transpose()?;
        let responder = self.responder.as_ref().context("CALLS in a case without webhooks")?;
        let mut calls = responder.take_calls(path.as_deref());
        if step.ordered != Some(true) {
            calls.sort_by(|a, b| a.path.cmp(&b.path));
        }
        let mut kept: Vec<Json> = Vec::new();
        for call in calls {
            self.known.learn(&call.body);
            let mut members = vec![("path".to_owned(), Json::Text(call.path))];
            if matches!(step.headers, Some(StepHeaders::Recorded(true))) {
                members.push(("headers".to_owned(), call.headers));
            }
            members.push(match &step.only {
                Some(only) => ("at".to_owned(), self.values_at(only, &call.body)?),
                None => ("body".to_owned(), call.body),
            });
            let call = Json::Object(members);
            if step.distinct != Some(true) || !kept.contains(&call) {
                kept.push(call);
            }
        }
        Ok(Json::Object(vec![("calls".to_owned(), Json::Array(kept))]))
    }
}
