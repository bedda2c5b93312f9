//! Determines the revision and the initial events with which a watch starts.

use pintle_apimachinery::request::options::ListOptions;

pub(super) struct Start {
    pub(super) initial: bool,
    pub(super) end_mark: bool,
    /// The watch sends the changes after this revision, or after the current revision if the field is `None`.
    pub(super) after: Option<u64>,
}

impl Start {
    pub(super) fn new(options: &ListOptions, version: u64) -> Self {
        let text = options.resource_version.as_str();
        match options.send_initial_events {
            Some(true) => Self { initial: true, end_mark: options.allow_bookmarks, after: None },
            Some(false) => Self { initial: false, end_mark: false, after: (version > 0).then_some(version) },
            None if version > 0 => Self { initial: false, end_mark: false, after: Some(version) },
            None => {
                let plain = matches!(text, "" | "0");
                Self { initial: true, end_mark: plain && options.allow_bookmarks, after: None }
            }
        }
    }
}
