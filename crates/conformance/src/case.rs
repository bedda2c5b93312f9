//! Cases and their steps, as recorded, and the packed files that hold them: one case a line, one file an area.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::Json;

/// A sequence of requests and what a real kube-apiserver answered to each.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// `area/name`.
    pub name: String,
    /// What it needs beyond a plain server: `controllers`, `slow`, `bare`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Why it is there, where its name does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The rows of the behaviour table that it covers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<u32>,
    /// The release that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Whether it lacks a namespace of its own to begin with.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.needs.iter().any(|need| need == "bare")
    }

    /// The longest that its steps may wait by design, in seconds.
    #[must_use]
    pub fn longest_wait(&self) -> f64 {
        self.steps.iter().filter_map(|step| step.seconds.as_ref()?.as_f64()).sum()
    }
}

/// One step of a case. Which fields count depends on `do`; the rest is absent.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// An HTTP method, or WATCH, READ, UNTIL, TOGETHER, SLEEP.
    #[serde(rename = "do")]
    pub what: String,
    /// The name of a stream (WATCH, READ).
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The request's path and query, with `${variables}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Headers to set; null: a default header not to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, Option<String>>>,
    /// A JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Json>,
    /// A body of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// A body of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b64: Option<String>,
    /// A long body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// Variables to set from the answer: a JSON pointer, or `header:Name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<BTreeMap<String, String>>,
    /// Whose token goes along; absent: an administrator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The answer keeps only these pointers, as `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// The answer also keeps the headers that every answer carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_headers: Option<bool>,
    /// How many frames to take (READ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<usize>,
    /// Whether to wait for the stream's end (READ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<bool>,
    /// `bookmarks`: drop the plain ones (READ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// How long to wait (READ, UNTIL, SLEEP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Number>,
    /// What to look at (UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The value to wait for (UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Json>,
    /// Whether to wait for presence or absence (UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
    /// The status code to wait for (UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What to send again and again, where it is no GET of a path (UNTIL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<Step>>,
    /// Headers that the answer does not keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<Vec<String>>,
    /// Where in the answer a JWT is, whose claims it keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<String>,
    /// What runs at once (TOGETHER).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
    /// Why, for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What came, with placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
}

/// A body of one text, repeated.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// What is repeated.
    pub text: String,
    /// How often.
    pub times: usize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = self.path.as_deref().or(self.stream.as_deref()).unwrap_or("");
        write!(f, "{} {about}", self.what)
    }
}

/// The cases that come with this crate, packed.
#[must_use]
pub fn packed_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Reads every case below a folder: `.jsonl` files hold one a line, `.json` files one each. Sorted by name.
///
/// # Errors
///
/// The file and line that cannot be read or is no case; two cases of one name; a folder without a case.
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
                cases.push(case.with_context(|| format!("{}:{}: no case", path.display(), index + 1))?);
            }
        } else {
            cases.push(serde_json::from_str(&text).with_context(|| format!("{}: no case", path.display()))?);
        }
    }
    Ok(())
}

/// Writes cases as `AREA.jsonl`, one a line, in place of what the folder held.
///
/// # Errors
///
/// The file that cannot be written.
pub fn pack(cases: &[Case], folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut areas: BTreeMap<&str, String> = BTreeMap::new();
    for case in cases {
        let area = case.name.split_once('/').map_or("cases", |(area, _)| area);
        let text = areas.entry(area).or_default();
        text.push_str(&serde_json::to_string(case)?);
        text.push('\n');
    }
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut files = Vec::new();
    for (area, text) in areas {
        let file = folder.join(format!("{area}.jsonl"));
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        files.push(file);
    }
    Ok(files)
}
