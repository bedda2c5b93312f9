//! Snapshots of a server's objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_authz::KeySeed;
use pintle_json::Json;
use pintle_storage::{Db, Key, ResourceKey, Stored};
use serde::{Deserialize, Serialize};

use crate::registry;

/// A server's objects at one revision, as returned by [`ApiServer::snapshot`](super::ApiServer::snapshot). A snapshot
/// is cheap, because it shares the stored objects with the server.
///
/// The text form begins with a header line that contains the revision. Each other line contains one object as JSON.
/// Keep the text form secret, because it contains Secrets and the key that signs service account tokens.
#[derive(Clone)]
pub struct ServerSnapshot {
    revision: u64,
    /// The key that signs service account tokens, or `None` if the snapshot was parsed from text without a key.
    pub(super) token_key: Option<KeySeed>,
    pub(super) objects: BTreeMap<(ResourceKey, Key), Arc<Stored>>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    resource: &'a str,
    key: String,
    api_version: String,
    object: Json,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    resource_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_key: Option<String>,
}

pintle_meta::debug_struct!(ServerSnapshot |self| { revision, objects = self.objects.len(), .. });

impl ServerSnapshot {
    pub(super) fn of(db: &Db, token_key: Option<KeySeed>) -> Self {
        let now = db.now();
        let objects = now.everything().map(|(resource, key, stored)| ((resource, key), stored)).collect();
        Self { revision: now.revision(), token_key, objects }
    }

    /// Returns the revision of the last write in the snapshot. A server that replaces the server of the snapshot must
    /// [start](super::ApiServerConfig::first_revision) at a higher revision.
    pub fn resource_version(&self) -> u64 {
        self.revision
    }

    /// Returns a snapshot that contains only the objects created or changed after `earlier`, an earlier snapshot of the
    /// same server.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let is_new = |at: &(ResourceKey, Key), kept: &Stored| {
            earlier.objects.get(at).is_none_or(|before| before.revision() != kept.revision())
        };
        let objects = self.objects.iter().filter(|(at, kept)| is_new(at, kept));
        Self { objects: objects.map(|(at, kept)| (at.clone(), kept.clone())).collect(), ..self.clone() }
    }

    /// Returns the snapshot's text form, for example to write it to a file.
    pub fn to_text(&self) -> String {
        let token_key = self.token_key.map(|key| URL_SAFE_NO_PAD.encode(key));
        let mut text = pintle_json::json!(Head { resource_version: self.revision, token_key }).to_string();
        for ((resource, key), kept) in &self.objects {
            let line =
                Line { resource, key: key.to_string(), api_version: kept.version().to_string(), object: kept.decode() };
            text.push('\n');
            text.push_str(&pintle_json::json!(line).to_string());
        }
        text.push('\n');
        text
    }

    /// Parses the text form that [`to_text`](Self::to_text) returns.
    ///
    /// # Errors
    ///
    /// Returns an error with the line number of the first invalid line.
    pub fn parse(text: &str) -> Result<Self, InvalidSnapshot> {
        let mut lines = text.lines().enumerate();
        let broken = |number: usize| InvalidSnapshot { line: number + 1 };
        let (number, head) = lines.next().ok_or(broken(0))?;
        let Head { resource_version: revision, token_key } = serde_json::from_str(head).map_err(|_| broken(number))?;
        let key = |text: String| URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok();
        let token_key = token_key.map(|text| key(text).ok_or(broken(number))).transpose()?;
        let (mut objects, interner) = (BTreeMap::new(), Arc::default());
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let mut line: Line<'_> = serde_json::from_str(line).map_err(|_| broken(number))?;
            if !line.object["metadata"]["name"].is_string() {
                return Err(broken(number));
            }
            line.object["apiVersion"] = line.api_version.into();
            let kept = Stored::of(registry::draft(&interner, line.resource, &line.object));
            objects.insert((line.resource.into(), line.key.into()), Arc::new(kept));
        }
        Ok(Self { revision, token_key, objects })
    }
}

/// The error when a text is not a valid snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not a valid line of a snapshot")]
pub struct InvalidSnapshot {
    /// The number of the first invalid line, starting at 1.
    pub line: usize,
}
