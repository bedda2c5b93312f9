//! Review versions.

/// The version of an AdmissionReview or a ConversionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// Returns the first supported version in the list.
    pub fn first_supported<'a>(mut versions: impl Iterator<Item = &'a str>) -> Option<Self> {
        versions.find_map(|version| match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}
