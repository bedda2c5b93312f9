//! Tests of the built-in kinds and their registry.

mod devices;
mod error_order;
mod field_selectors;
mod growth;
mod lease_candidates;
mod object_meta;
mod pods;
mod registry_of_kinds;
mod size;
mod strategies;
mod table;
mod validation_rows;
