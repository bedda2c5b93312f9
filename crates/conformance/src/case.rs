//! Recorded test cases and their files. Each API area has a `.jsonl` file with one case per line.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::json::Json;

/// A sequence of requests with the recorded responses of a real kube-apiserver.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of the case in the form `area/name`.
    pub name: String,
    /// The special requirements of the case, such as `controllers`, `slow` or `bare`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// An explanation of the case, if its name is not sufficient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The rows in the table of API behavior that this case tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<u32>,
    /// The Kubernetes version of the recorded kube-apiserver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The behaviours of the webhooks, keyed by path. A case refers to the URL of the webhooks as `${hook}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<Json>,
    /// The steps of the case, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Returns `true` if the case does not get its own namespace.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.needs.iter().any(|need| need == "bare")
    }

    /// Returns `true` if the case needs a webhook server for its own webhooks or for a probe of a `READY` step.
    #[must_use]
    pub fn has_webhooks(&self) -> bool {
        let mut kinds = self.steps.iter().flat_map(|step| step.of.iter().flatten());
        self.webhooks.is_some() || kinds.any(|kind| matches!(kind.as_str(), "validating" | "mutating"))
    }

    /// Returns the sum of the maximum waiting times of all steps, in seconds.
    #[must_use]
    pub fn longest_wait(&self) -> f64 {
        self.steps.iter().filter_map(|step| step.seconds.as_ref()?.as_f64()).sum()
    }
}

/// A step of a case. The field `do`, the action, determines which other fields are present.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The action: an HTTP method, or `WATCH`, `READ`, `UNTIL`, `READY`, `CALLS`, `TOGETHER` or `SLEEP`.
    #[serde(rename = "do")]
    pub what: String,
    /// The name of the watch stream to open or read (for WATCH and READ).
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The path and query of the request, which can contain variables such as `${ns}`. For CALLS, the path of the
    /// webhook without a query, or `None` for all webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Request headers to set. For CALLS, whether to record the headers of webhook calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<StepHeaders>,
    /// The request body as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Json>,
    /// The request body as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// A binary request body in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b64: Option<String>,
    /// A long request body, as a text and a number of repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// Variables to set, each from a JSON pointer into the response or from `header:Name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<BTreeMap<String, String>>,
    /// The user whose token is sent, by default an administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// JSON pointers into the response body, if the recorded response contains only these values, in a field named
    /// `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// Whether to record the headers that every response has, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_headers: Option<bool>,
    /// The number of frames to read from the stream (for READ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<usize>,
    /// Whether to wait for the end of the stream (for READ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<bool>,
    /// The watch frames to skip (for READ). `bookmarks` skips the periodic bookmarks, which a server can send at any
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// The maximum time to wait, in seconds (for READ, UNTIL and SLEEP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Number>,
    /// A JSON pointer to the response value to check (for UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The expected value at `pointer` (for UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Json>,
    /// Whether to wait until `pointer` has a value (`true`) or has none (`false`) (for UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
    /// The expected status code (for UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The request to repeat, by default a GET of `path` (for UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<Step>>,
    /// The admission objects to wait for: `validating` or `mutating` for webhooks, `vap` or `map` for policies (for
    /// READY).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Vec<String>>,
    /// The response headers to omit from the recorded response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<Vec<String>>,
    /// A JSON pointer to a JWT in the response. The claims of the JWT are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<String>,
    /// Whether to record webhook calls in arrival order instead of sorting them by path (for CALLS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<bool>,
    /// Whether to record equal webhook calls only once (for CALLS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct: Option<bool>,
    /// The steps to run concurrently (for TOGETHER).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
    /// A comment for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The recorded response, with placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
}

/// The value of a step's field `headers`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum StepHeaders {
    /// Request headers to set. `None` removes a default header.
    Sent(BTreeMap<String, Option<String>>),
    /// Whether to record the headers of webhook calls.
    Recorded(bool),
}

impl StepHeaders {
    pub(crate) fn sent(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let Self::Sent(headers) = self else { return None.into_iter().flatten() };
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        Some(headers).into_iter().flatten()
    }
}

/// A request body that consists of a repeated text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The text that the body repeats.
    pub text: String,
    /// The number of repetitions of the text.
    pub times: usize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = self.path.as_deref().or(self.stream.as_deref()).unwrap_or("");
        write!(f, "{} {about}", self.what)
    }
}

/// Returns the folder of the `.jsonl` cases in this crate.
#[must_use]
pub fn packed_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Reads all cases in a folder and its subfolders, sorted by name. A `.jsonl` file contains one case per line, and a
/// `.json` file contains a single case.
///
/// # Errors
///
/// Returns an error if a file or line cannot be read or parsed, if two cases have the same name, or if there are no
/// cases.
pub fn load(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    load_into(folder, &mut cases)?;
    cases.sort_by(|a: &Case, b: &Case| a.name.cmp(&b.name));
    if let Some(twice) = cases.windows(2).find(|two| two[0].name == two[1].name) {
        bail!("{}: two cases are named {}", folder.display(), twice[0].name);
    }
    if cases.is_empty() {
        bail!("{}: no cases", folder.display());
    }
    Ok(cases)
}

fn load_into(folder: &Path, cases: &mut Vec<Case>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            load_into(&path, cases)?;
            continue;
        }
        let lines = match path.extension().and_then(|ending| ending.to_str()) {
            Some("jsonl") => true,
            Some("json") => false,
            _ => continue,
        };
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        if lines {
            for (index, line) in text.lines().enumerate() {
                let case = serde_json::from_str(line);
                cases.push(case.with_context(|| format!("{}:{}: invalid case", path.display(), index + 1))?);
            }
        } else {
            cases.push(serde_json::from_str(&text).with_context(|| format!("{}: invalid case", path.display()))?);
        }
    }
    Ok(())
}

/// Writes the cases to files named `AREA.jsonl`, one case per line, and replaces all existing files in the folder.
///
/// # Errors
///
/// Returns an error if a case file cannot be written.
pub fn pack(cases: &[Case], folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut areas: BTreeMap<&str, String> = BTreeMap::new();
    for case in cases {
        let area = case.name.split_once('/').map_or("cases", |(area, _)| area);
        let text = areas.entry(area).or_default();
        text.push_str(&serde_json::to_string(case)?);
        text.push('\n');
    }
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut files = Vec::new();
    for (area, text) in areas {
        let file = folder.join(format!("{area}.jsonl"));
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        files.push(file);
    }
    Ok(files)
}
