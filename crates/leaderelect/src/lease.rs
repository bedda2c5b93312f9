//! Leases.

use std::collections::BTreeMap;

use pintle_meta::__private::or_empty;
use pintle_meta::{MicroTime, ObjectMeta, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::LeaderElectionRecord;

/// A `Lease` of `coordination.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Lease {
    /// The `apiVersion` and the `kind` of the object.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The holder of the lease, the lease duration and the times.
    #[serde(default, deserialize_with = "or_empty")]
    pub spec: LeaseSpec,
}

pintle_meta::resource!(Lease, "coordination.k8s.io/v1", "Lease", "leases", Namespaced);

impl Lease {
    /// Creates a lease that contains `record`.
    pub fn new(metadata: ObjectMeta, record: &LeaderElectionRecord) -> Self {
        let mut lease = Self {
            types: TypeMeta { api_version: "coordination.k8s.io/v1".into(), kind: "Lease".into() },
            metadata,
            spec: LeaseSpec::default(),
        };
        lease.spec.put(record);
        lease
    }
}

/// The spec of a [`Lease`], which contains an election record.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", from = "Wire")]
pub struct LeaseSpec {
    /// The holder's identity. The lease is free if this field is missing or empty.
    pub holder_identity: Option<String>,
    /// How many seconds the lease is valid after a renewal. Servers reject values below 1.
    pub lease_duration_seconds: Option<i32>,
    /// The time at which the holder acquired the lease. An invalid time is treated as missing, so that the rest of the
    /// lease can still be read.
    pub acquire_time: Option<MicroTime>,
    /// The time of the holder's last renewal. An invalid time is treated as missing.
    pub renew_time: Option<MicroTime>,
    /// The number of times that the holder has changed.
    pub lease_transitions: Option<i32>,
    /// The strategy of a coordinated election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The candidate that should become the holder in a coordinated election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_holder: Option<String>,
    /// The fields of `spec` that this type does not declare. Writes keep these fields.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
    /// The text of the times that could not be parsed. Writes omit these times. If a holder writes invalid times,
    /// electors detect its renewals by comparing this text.
    #[serde(skip)]
    pub unreadable_times: String,
}

/// A [`LeaseSpec`] before its times are parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    #[serde(default)]
    acquire_time: Value,
    #[serde(default)]
    renew_time: Value,
    lease_transitions: Option<i32>,
    strategy: Option<String>,
    preferred_holder: Option<String>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

impl From<Wire> for LeaseSpec {
    fn from(wire: Wire) -> Self {
        let mut unreadable_times = String::new();
        let mut read = |name: &str, time: Value| {
            let read = Option::<MicroTime>::deserialize(&time);
            if read.is_err() {
                unreadable_times.push_str(&format!("{name}: {time};"));
            }
            read.ok().flatten()
        };
        let (acquire_time, renew_time) = (read("acquireTime", wire.acquire_time), read("renewTime", wire.renew_time));
        let Wire { holder_identity, lease_duration_seconds, lease_transitions, .. } = wire;
        let Wire { strategy, preferred_holder, other, .. } = wire;
        Self {
            holder_identity,
            lease_duration_seconds,
            acquire_time,
            renew_time,
            lease_transitions,
            strategy,
            preferred_holder,
            other,
            unreadable_times,
        }
    }
}

impl LeaseSpec {
    /// Returns the lease's election record. Missing fields are returned as an empty string, 0 or `None`.
    pub fn record(&self) -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: self.holder_identity.clone().unwrap_or_default(),
            lease_duration_seconds: self.lease_duration_seconds.unwrap_or_default(),
            acquire_time: self.acquire_time,
            renew_time: self.renew_time,
            leader_transitions: self.lease_transitions.unwrap_or_default(),
            strategy: self.strategy.clone().filter(|strategy| !strategy.is_empty()),
            preferred_holder: self.preferred_holder.clone().filter(|holder| !holder.is_empty()),
        }
    }

    /// Stores `record` in the spec, and leaves all other fields unchanged.
    pub fn put(&mut self, record: &LeaderElectionRecord) {
        self.holder_identity = Some(record.holder_identity.clone());
        self.lease_duration_seconds = Some(record.lease_duration_seconds);
        self.acquire_time = record.acquire_time;
        self.renew_time = record.renew_time;
        self.lease_transitions = Some(record.leader_transitions);
        (self.strategy, self.preferred_holder) = (record.strategy.clone(), record.preferred_holder.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn record_survives_conversion_to_lease_and_back() {
        let text = r#"{"holderIdentity":"host_1","leaseDurationSeconds":15,"acquireTime":"2026-11-20T08:30:00.000001Z",
            "renewTime":"2026-11-20T08:30:02.500000Z","leaseTransitions":3,"strategy":"OldestEmulationVersion",
            "preferredHolder":"host_2"}"#;
        let spec: LeaseSpec = serde_json::from_str(text).unwrap();
        let lease = Lease::new(ObjectMeta::new("ns", "lock"), &spec.record());
        assert_eq!(lease.spec.record(), spec.record());
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&lease.spec).unwrap(), expected);
    }

    #[test]
    fn fields_outside_the_record_survive_a_write() {
        let mut spec: LeaseSpec = serde_json::from_value(json!({"strategy": "x", "later": 1})).unwrap();
        spec.put(&LeaderElectionRecord { holder_identity: "me".into(), ..spec.record() });
        let back = serde_json::to_value(&spec).unwrap();
        assert_eq!((&back["strategy"], &back["later"]), (&json!("x"), &json!(1)));
        spec.put(&LeaderElectionRecord::default());
        let back = serde_json::to_value(&spec).unwrap();
        assert_eq!((&back["strategy"], &back["later"]), (&Value::Null, &json!(1)));
    }

    #[test]
    fn absent_null_and_unreadable_fields_read_as_defaults() {
        for text in ["{}", r#"{"spec":null}"#, r#"{"spec":{"holderIdentity":null,"renewTime":"yesterday"}}"#] {
            let lease: Lease = serde_json::from_str(text).unwrap();
            assert_eq!(lease.spec.record(), LeaderElectionRecord::default(), "{text}");
        }
    }

    #[test]
    fn unreadable_times_are_compared_but_never_written() {
        let spec = |text: &str| serde_json::from_str::<LeaseSpec>(text).unwrap();
        assert_eq!(spec(r#"{"renewTime":"2026-11-20T08:30:00.000000Z"}"#).unreadable_times, "");
        assert_eq!(spec(r#"{"renewTime":null}"#).unreadable_times, "");
        let read = spec(r#"{"acquireTime":7,"renewTime":"yesterday"}"#);
        assert_eq!(read.unreadable_times, r#"acquireTime: 7;renewTime: "yesterday";"#);
        let mut written = read.clone();
        written.put(&read.record());
        assert_eq!(serde_json::to_value(&written).unwrap()["renewTime"], Value::Null);
    }

    #[test]
    fn times_have_six_digits_and_absent_times_are_null() {
        let spec: LeaseSpec = serde_json::from_value(json!({"renewTime": "2026-11-20T08:30:00Z"})).unwrap();
        let back = serde_json::to_value(&spec).unwrap();
        assert_eq!(back["renewTime"], "2026-11-20T08:30:00.000000Z");
        assert_eq!(back["acquireTime"], Value::Null);
    }
}
