//! What `resource.k8s.io` has: devices, and claims to them.

mod device_class;
mod resource_claim;
mod resource_slice;

pub(super) use device_class::DeviceClass;
pub(super) use resource_claim::ResourceClaim;
pub(super) use resource_slice::ResourceSlice;
