//! Prints counters as one JSON object.

use std::path::Path;

use forebay_shm::{CounterValue, HistogramValue};
use serde_json::{Map, Value, json};

use super::follow::CounterSnapshot;
use super::rows::{change, count};

/// Returns a snapshot as JSON, with the changes per second since an earlier snapshot, if there is
/// one.
pub(super) fn table(
    path: &Path,
    now: &CounterSnapshot,
    before: Option<(&CounterSnapshot, f64)>,
) -> Value {
    let counters = now.counters().map(|(def, value)| (def.name.clone(), value_json(value)));
    let mut object = json!({
        "file": path.display().to_string(),
        "pid": now.pid,
        "is_alive": now.is_alive,
        "counters": counters.collect::<Map<_, _>>(),
    });
    if let Some((before, seconds)) = before {
        let rates = now.counters().zip(before.values()).map(|((def, now), before)| {
            let change = change(count(now), count(before)) as f64;
            (def.name.clone(), json!(change / seconds))
        });
        object["per_second"] = Value::Object(rates.collect());
    }
    object
}

fn value_json(value: &CounterValue) -> Value {
    match value {
        CounterValue::Number(number) => json!(number),
        CounterValue::Histogram(histogram) => histogram_json(histogram),
    }
}

fn histogram_json(histogram: &HistogramValue) -> Value {
    let buckets = histogram.buckets.iter();
    let buckets = buckets.map(|bucket| json!({ "up_to": bucket.bound, "count": bucket.count }));
    json!({
        "count": histogram.count(),
        "sum": histogram.sum,
        "buckets": buckets.collect::<Vec<_>>(),
    })
}
