//! A resource without its version, as Kubernetes prints it in messages.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A resource without its version, such as `deployments.apps`. Core resources are written without a group, such as
/// `pods`.
///
/// # Examples
///
/// ```
/// use pintle_meta::GroupResource;
///
/// let ingresses: GroupResource = "ingresses.networking.k8s.io".parse()?;
/// assert_eq!(ingresses, GroupResource::new("networking.k8s.io", "ingresses"));
/// assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
/// # Ok::<(), pintle_meta::InvalidGroupResource>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group, or an empty string for the core group.
    pub group: String,
    /// The lower-case plural name, such as `deployments`.
    pub resource: String,
}

impl GroupResource {
    /// Creates a `GroupResource` from a group and a plural name.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl FromStr for GroupResource {
    type Err = InvalidGroupResource;

    /// Parses `resource` or `resource.group`. As in Kubernetes' `ParseGroupResource`, the resource name ends at the
    /// first dot of the string.
    ///
    /// # Errors
    ///
    /// Returns an error if the resource name is empty, or if the first dot is the last character.
    fn from_str(text: &str) -> Result<Self, InvalidGroupResource> {
        match text.split_once('.') {
            None if !text.is_empty() => Ok(Self::new("", text)),
            Some((resource, group)) if !resource.is_empty() && !group.is_empty() => Ok(Self::new(group, resource)),
            _ => Err(InvalidGroupResource { text: text.into() }),
        }
    }
}

/// The error when a string cannot be parsed as `resource` or `resource.group`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a resource: expected \"resource\" or \"resource.group\"")]
pub struct InvalidGroupResource {
    text: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_ends_at_the_first_dot() {
        for (text, group, resource) in [
            ("pods", "", "pods"),
            ("deployments.apps", "apps", "deployments"),
            ("leases.coordination.k8s.io", "coordination.k8s.io", "leases"),
            ("pods/status", "", "pods/status"),
        ] {
            let expected = GroupResource::new(group, resource);
            assert_eq!(expected.to_string(), text);
            assert_eq!(text.parse(), Ok(expected));
        }
        for bad in ["", ".", ".apps", "pods."] {
            let error = bad.parse::<GroupResource>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("{bad:?} is not a resource")), "{error}");
        }
    }
}
