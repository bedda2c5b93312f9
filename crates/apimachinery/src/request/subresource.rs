//! The subresources that the server supports.

/// The subresource in a request path, or `None` for the object itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subresource {
    #[default]
    None,
    Approval,
    Attach,
    Binding,
    EphemeralContainers,
    Eviction,
    Exec,
    Finalize,
    Log,
    PortForward,
    Proxy,
    Resize,
    Scale,
    Status,
    Token,
}

impl Subresource {
    const ALL_BUT_NONE: [Self; 14] = [
        Self::Approval,
        Self::Attach,
        Self::Binding,
        Self::EphemeralContainers,
        Self::Eviction,
        Self::Exec,
        Self::Finalize,
        Self::Log,
        Self::PortForward,
        Self::Proxy,
        Self::Resize,
        Self::Scale,
        Self::Status,
        Self::Token,
    ];

    /// Parses a subresource name. An empty name means the object itself.
    pub fn parse(name: &str) -> Option<Self> {
        if name.is_empty() {
            return Some(Self::None);
        }
        Self::ALL_BUT_NONE.into_iter().find(|subresource| subresource.name() == name)
    }

    /// Returns `true` if requests to this subresource open streams that have no fixed end.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Attach | Self::Exec | Self::Log | Self::PortForward | Self::Proxy)
    }

    /// Returns the name in paths and in `managedFields`, which is empty for [`Self::None`].
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Approval => "approval",
            Self::Attach => "attach",
            Self::Binding => "binding",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Eviction => "eviction",
            Self::Exec => "exec",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::PortForward => "portforward",
            Self::Proxy => "proxy",
            Self::Resize => "resize",
            Self::Scale => "scale",
            Self::Status => "status",
            Self::Token => "token",
        }
    }
}
