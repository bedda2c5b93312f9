//! The `CronJob` kind in `batch/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};

use super::{failure_policy, job_errors, job_warnings};
use crate::core::pod::pod_template;

pub(crate) struct CronJob;

impl Strategy for CronJob {
    fn warnings(&self, object: &Json, old: Option<&Json>, part: Subresource) -> Vec<String> {
        let mut found = job_warnings(object, old, "/spec/jobTemplate/spec");
        if old.is_some() && part == Subresource::None && object.text("/spec/schedule").contains("TZ") {
            let see = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
            found.push(format!(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see {see} for more details"
            ));
        }
        found
    }

    fn defaults(&self, object: &mut Json) {
        let job = ["spec", "jobTemplate", "spec"].into_iter().try_fold(object, Json::member);
        let Some(job) = job else { return };
        failure_policy(job);
        if let Some(pods) = job.member("template") {
            pod_template(pods);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let schedule = object.text("/spec/schedule");
        let why = if schedule.is_empty() { None } else { schedule_error(schedule) };
        let zone = object["spec"]["timeZone"].as_str();
        let template = &object["spec"]["jobTemplate"]["spec"];
        Check::of(object)
            .required("spec.schedule")
            .invalid_text_if(why.is_some(), "spec.schedule", schedule, why.unwrap_or_default())
            .not_negative(&["spec.startingDeadlineSeconds"])
            .refuse(zone.is_some_and(|zone| !is_zone(zone)), || {
                let zone = zone.unwrap_or_default();
                let why = match zone {
                    "" => "timeZone must be nil or non-empty string".into(),
                    zone => format!("unknown time zone {zone}"),
                };
                FieldError::invalid_text("spec.timeZone", zone, why)
            })
            .one_of("spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"])
            .also(job_errors(template, "spec.jobTemplate.spec"))
            .refuse(template.has("/selector"), || {
                let why = "`selector` will be auto-generated";
                FieldError::invalid("spec.jobTemplate.spec.selector", &template["selector"], why)
            })
            .refuse(template.is_true("/manualSelector"), || {
                FieldError::unsupported("spec.jobTemplate.spec.manualSelector", &true.into(), &["nil", "false"])
            })
            .not_negative(&["spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit"])
            .done()
    }

    fn validate_update(&self, new: &Json, _: &Json, part: Subresource) -> FieldErrors {
        if part != Subresource::None { FieldErrors::default() } else { self.validate_create(new) }
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Suspend", Cell::Computed(|job| if job.is_true("/spec/suspend") { "True" } else { "False" }.into()))]
    }
}

fn schedule_error(schedule: &str) -> Option<String> {
    const RANGES: [(i64, i64); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    const NAMES: [&[&str]; 5] = [
        &[],
        &[],
        &[],
        &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ];
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".into());
    }
    if schedule.starts_with('@') {
        let known = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
        let every = schedule.strip_prefix("@every ").is_some_and(|text| !text.trim().is_empty());
        return (!known.contains(&schedule) && !every).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != RANGES.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let number = |field: usize, text: &str| -> Result<i64, String> {
        let (first, _) = RANGES[field];
        let named = NAMES[field].iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(at) = named.and_then(|at| i64::try_from(at).ok()) {
            return Ok(first + at);
        }
        text.parse().map_err(|_| format!("failed to parse int from {text}"))
    };
    for (at, field) in fields.iter().enumerate() {
        let (first, last) = RANGES[at];
        for part in field.split(',') {
            let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
            let bounds = match range {
                "*" | "?" => Ok((first, last)),
                range => match range.split_once('-') {
                    Some((from, to)) => number(at, from).and_then(|from| Ok((from, number(at, to)?))),
                    None => number(at, range).map(|only| (only, if step.is_some() { last } else { only })),
                },
            };
            let (from, to) = match bounds {
                Ok(bounds) => bounds,
                Err(why) => return Some(why),
            };
            let why = match () {
                () if from < first => format!("beginning of range ({from}) below minimum ({first}): {part}"),
                () if to > last => format!("end of range ({to}) above maximum ({last}): {part}"),
                () if from > to => format!("beginning of range ({from}) beyond end of range ({to}): {part}"),
                () if step.is_some_and(|step| !step.parse::<u32>().is_ok_and(|step| step > 0)) => {
                    format!("step of range should be a positive number: {part}")
                }
                () => continue,
            };
            return Some(why);
        }
    }
    None
}

/// Returns `true` if the text has the form of a name in the time zone database. Does not check whether the time zone
/// exists.
fn is_zone(zone: &str) -> bool {
    const AREAS: &[&str] = &[
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
        "Etc",
        "US",
    ];
    zone == "UTC"
        || zone == "GMT"
        || zone.split_once('/').is_some_and(|(area, place)| AREAS.contains(&area) && !place.is_empty())
}
