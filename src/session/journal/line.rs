//! A line from its bytes, in one pass: what all lines have stands before the kind, and the kind before what is its own.

use std::fmt;

use longshore_protocol::id::AgentId;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, VariantAccess,
    Visitor,
};
use serde::{Deserialize, de};

use super::record::{Line, RecordByKind, VERSION};

/// The fields that all lines have.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    V,
    Seq,
    After,
    At,
    Agent,
    Type,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Line {
    /// # Errors
    /// Where the line is of another version, or a field of its own stands before the kind: [`super::migrate`] is for
    /// those.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of a journal")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
        let (mut v, mut seq, mut after, mut at, mut agent) = (None, None, None, None, None);
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::V => v = Some(map.next_value::<u32>()?),
                Field::Seq => seq = map.next_value()?,
                Field::After => after = map.next_value()?,
                Field::At => at = Some(map.next_value::<i64>()?),
                Field::Agent => agent = Some(map.next_value::<AgentId>()?),
                Field::Other => return Err(A::Error::custom("its kind does not come first")),
                Field::Type => {
                    let kind = map.next_value::<String>()?;
                    if v != Some(VERSION) {
                        return Err(A::Error::custom("it is of another version"));
                    }
                    let own = Kinded {
                        kind: kind.into_deserializer(),
                        fields: &mut map,
                    };
                    return Ok(Line {
                        v: VERSION,
                        seq,
                        after,
                        at: at.ok_or_else(|| A::Error::missing_field("at"))?,
                        agent: agent.ok_or_else(|| A::Error::missing_field("agent"))?,
                        record: RecordByKind::deserialize(own)?,
                    });
                }
            }
        }
        Err(A::Error::missing_field("type"))
    }
}

/// The fields of a record whose kind is known.
struct Kinded<'a, A, E> {
    kind: StringDeserializer<E>,
    fields: &'a mut A,
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for Kinded<'_, A, A::Error> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, 'a, A: MapAccess<'de>> EnumAccess<'de> for Kinded<'a, A, A::Error> {
    type Error = A::Error;
    type Variant = Fields<'a, A>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), Self::Error> {
        let kind = seed.deserialize(self.kind)?;
        Ok((kind, Fields(self.fields)))
    }
}

/// What is left of a line after its kind.
struct Fields<'a, A>(&'a mut A);

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), Self::Error> {
        while self
            .0
            .next_entry::<de::IgnoredAny, de::IgnoredAny>()?
            .is_some()
        {}
        Ok(())
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_map(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<S::Value, Self::Error> {
        seed.deserialize(MapAccessDeserializer::new(self.0))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("no record is a tuple"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::Record;
    use super::*;

    fn read(text: &str) -> Result<Line, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_stands_in_a_line_is_read_in_one_pass() {
        let line = read(
            r#"{"v":1,"seq":4,"at":5,"agent":"main","type":"step_started","turn":"t1","step":2,"later":[{"v":9}]}"#,
        )
        .unwrap();
        assert_eq!((line.seq, line.after, line.at), (Some(4), None, 5));
        let (turn, step) = ("t1".into(), 2);
        assert_eq!(line.record, Record::StepStarted { turn, step });
        let line = read(r#"{"v":1,"seq":4,"at":5,"agent":"main","type":"session_closed"}"#);
        assert_eq!(line.unwrap().record, Record::SessionClosed);
        // The same through a value, as lines with blobs are read.
        let value =
            json!({"v": 1, "after": 4, "at": 5, "agent": "main", "type": "reminder", "text": "r"});
        let line = Line::deserialize(value).unwrap();
        assert_eq!(line.record, Record::Reminder { text: "r".into() });
    }

    #[test]
    fn what_is_no_such_line_is_refused() {
        for (bad, why) in [
            (
                r#"{"v":2,"at":5,"agent":"main","type":"session_closed"}"#,
                "another version",
            ),
            (
                r#"{"at":5,"agent":"main","type":"session_closed"}"#,
                "another version",
            ),
            (r#"{"v":1,"at":5,"agent":"main"}"#, "missing field `type`"),
            (
                r#"{"v":1,"agent":"main","type":"session_closed"}"#,
                "missing field `at`",
            ),
            (
                r#"{"v":1,"at":5,"agent":"main","type":"step_started","turn":"t1"}"#,
                "missing field `step`",
            ),
            (
                r#"{"v":1,"at":5,"agent":"main","type":"unheard_of"}"#,
                "unknown variant",
            ),
            (
                r#"{"v":1,"turn":"t1","at":5,"agent":"main","type":"tool_running"}"#,
                "does not come first",
            ),
            (
                r#"{"v":1,"at":5,"agent":"main","type":"session_closed"}{}"#,
                "trailing",
            ),
            ("[1]", "invalid type"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
