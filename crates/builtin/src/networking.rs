//! The kinds in `networking.k8s.io` and `discovery.k8s.io`.

mod endpoint_slice;
mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

pub(super) use endpoint_slice::EndpointSlice;
pub(super) use ingress::Ingress;
pub(super) use ingress_class::IngressClass;
pub(super) use ip_address::IpAddress;
pub(super) use network_policy::NetworkPolicy;
pub(super) use service_cidr::ServiceCidr;
