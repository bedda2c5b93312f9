//! What steers the flow of requests, of which this server has one.

mod flow_schema;
mod priority_level;

pub(super) use flow_schema::FlowSchema;
pub(super) use priority_level::PriorityLevelConfiguration;
