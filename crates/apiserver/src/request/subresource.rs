//! What of an object a request is about.

/// An object, or what is reached by a path of its own below it: a subresource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subresource {
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
    const BELOW: [Self; 14] = [
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

    /// The part of that name, as it stands in paths; an empty one is the object itself.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if name.is_empty() {
            return Some(Self::None);
        }
        Self::BELOW.into_iter().find(|subresource| subresource.name() == name)
    }

    /// Whether answers go on for as long as somebody listens.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Attach | Self::Exec | Self::Log | Self::PortForward | Self::Proxy)
    }

    /// Its name in paths and in `managedFields`; empty for the object itself.
    pub(crate) fn name(self) -> &'static str {
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
