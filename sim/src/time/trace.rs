//! A timeline as Chrome trace JSON, which Perfetto and `chrome://tracing` show: a lane per warp and unit.

use std::fmt::Write;

use super::report::{Lane, Span, SpanKind, TimeReport, WaitKind};

/// Chrome process number of a kind of lane.
fn row(lane: Lane) -> (u32, u32) {
    match lane {
        Lane::Warp(w) => (1, w),
        Lane::Tensor(cta) => (2, cta),
        Lane::Copies(cta) => (2, 1000 + cta),
    }
}

/// Text of a reason.
#[must_use]
pub fn reason(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Mbarrier => "wait: mbarrier",
        WaitKind::Barrier => "wait: barrier",
        WaitKind::Tensor => "wait: tensor core",
        WaitKind::Registers => "wait: registers",
        WaitKind::Drain => "wait: copies",
    }
}

/// Trace JSON of a run; `lane_name` names the warps. One cycle is one microsecond of the viewer's scale.
#[must_use]
pub fn chrome_json(report: &TimeReport, lane_name: &dyn Fn(u32) -> String) -> String {
    let mut events: Vec<String> = vec![process(1, "warps (simulated)"), process(2, "units (simulated)")];
    let mut lanes: Vec<Lane> = report.spans.iter().map(|s| s.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    for lane in lanes {
        let (pid, tid) = row(lane);
        let name = match lane {
            Lane::Warp(w) => lane_name(w),
            Lane::Tensor(_) => "tensor core".to_owned(),
            Lane::Copies(_) => "copy engine".to_owned(),
        };
        events.push(format!(
            "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{}}}}}",
            quoted(&name)
        ));
    }
    let mut spans: Vec<&Span> = report.spans.iter().collect();
    // Enclosing spans first: viewers nest what starts together by order.
    spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
    events.extend(spans.iter().map(|span| event(report, span)));
    format!(
        "{{\"simulated\":true,\"displayTimeUnit\":\"ns\",\"otherData\":{{\"simulated\":true,\"unit\":\"SM cycles\",\"cycles\":{}}},\
         \"traceEvents\":[\n{}\n]}}\n",
        report.cycles,
        events.join(",\n")
    )
}

fn process(pid: u32, name: &str) -> String {
    format!(
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":{}}}}}",
        quoted(name)
    )
}

fn event(report: &TimeReport, span: &Span) -> String {
    let (pid, tid) = row(span.lane);
    let label = report.labels.get(span.label as usize).map_or("", String::as_str);
    let (name, detail) = match span.kind {
        SpanKind::Region => (label.to_owned(), String::new()),
        SpanKind::Wait(kind) => (reason(kind).to_owned(), format!(",\"on\":{}", quoted(label))),
        SpanKind::Product(group) => (label.to_owned(), format!(",\"warpgroup\":{group}")),
        SpanKind::Copy(bytes) => (label.to_owned(), format!(",\"bytes\":{bytes}")),
    };
    format!(
        "{{\"ph\":\"X\",\"name\":{},\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},\"args\":{{\"simulated\":true{detail}}}}}",
        quoted(&name),
        span.start,
        span.end.saturating_sub(span.start)
    )
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn text_is_escaped() {
        assert_eq!(quoted("a\"\\\n"), "\"a\\\"\\\\\\u000a\"");
    }
}
