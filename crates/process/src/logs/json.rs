//! Log lines as flat JSON objects.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// The fields of an event and of the spans around it in one object. Of fields with the same name, the innermost counts.
pub(super) struct Flat;

impl<S> FormatEvent<S, JsonFields> for Flat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Map::new();
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<FormattedFields<JsonFields>>() {
                fields.extend(parse(&of_span.fields));
            }
        }
        let mut of_event = String::new();
        context.format_fields(Writer::new(&mut of_event), event)?;
        fields.extend(parse(&of_event));

        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        write!(writer, "{{\"timestamp\":{}", Value::from(timestamp))?;
        write!(writer, ",\"level\":\"{}\"", event.metadata().level())?;
        // First what people read.
        let message = fields.remove_entry("message");
        for (name, value) in message.into_iter().chain(fields) {
            write!(writer, ",{}:{value}", Value::from(name))?;
        }
        writeln!(writer, ",\"target\":{}}}", Value::from(event.metadata().target()))
    }
}

/// [`JsonFields`] writes an object, or nothing if there are no fields.
fn parse(object: &str) -> Map<String, Value> {
    serde_json::from_str(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing::{error_span, info};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(JsonFields::new())
            .event_format(Flat)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_line_has_the_fields_of_its_event_and_of_the_spans_around_it() {
        let line = logged(|| {
            let _outer = error_span!("reconcile", kind = "FireboltEngine", name = "outer").entered();
            let _inner = error_span!("apply", name = "analytics").entered();
            info!(replicas = 3, quote = "\"\n", "scaled");
        });
        assert_eq!(line.lines().count(), 1, "{line}");
        let mut fields: Map<String, Value> = serde_json::from_str(&line).unwrap();
        assert!(fields.remove("timestamp").unwrap().as_str().unwrap().contains('T'));
        let expected = serde_json::json!({
            "level": "INFO", "message": "scaled", "kind": "FireboltEngine", "name": "analytics", "quote": "\"\n",
            "replicas": 3, "target": module_path!(),
        });
        assert_eq!(Value::from(fields), expected);
    }

    #[test]
    fn a_line_begins_with_time_level_and_message() {
        let line = logged(|| info!(a = 1, "scaled"));
        let (_, rest) = line.split_once("Z\"").unwrap();
        let target = module_path!();
        assert_eq!(
            rest,
            format!(",\"level\":\"INFO\",\"message\":\"scaled\",\"a\":1,\"target\":\"{target}\"}}\n")
        );
    }
}
