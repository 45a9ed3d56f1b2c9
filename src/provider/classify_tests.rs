use reqwest::header::{HeaderMap, HeaderValue};

use super::{Answer, classify};
use crate::kernel::time::Timestamp;
use crate::provider::error::{ErrorClass, ProviderError};

fn read(status: Option<u16>, body: &str) -> ProviderError {
    classify(&Answer {
        status,
        headers: &HeaderMap::new(),
        body,
        secrets: &[],
        now: Timestamp(0),
    })
}

#[test]
fn classes() {
    use ErrorClass::{
        Auth, BadStructure, ContextOverflow, Filtered, ImageRejected, Overloaded, QuotaExhausted,
        RateLimit, RequestTooLarge, Status, Unclassified,
    };
    for (status, body, class) in [
        // status
        (Some(401), "", Auth),
        (Some(403), "nope", Auth),
        (Some(402), "", QuotaExhausted),
        (
            Some(404),
            r#"{"error":{"message":"no such model"}}"#,
            Status,
        ),
        (Some(408), "", Overloaded),
        (Some(409), "", Overloaded),
        (Some(429), "", RateLimit),
        (Some(500), "", Overloaded),
        (
            Some(503),
            r#"{"error":{"message":"Loading model","type":"unavailable_error"}}"#,
            Overloaded,
        ),
        (
            Some(529),
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Overloaded,
        ),
        (Some(524), "<html>", Overloaded),
        // quota
        (
            Some(429),
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}"#,
            QuotaExhausted,
        ),
        (
            Some(429),
            r#"{"error":{"type":"exceeded_current_quota_error","message":"x"}}"#,
            QuotaExhausted,
        ),
        (
            Some(429),
            r#"{"error":{"message":"Insufficient balance, please recharge"}}"#,
            QuotaExhausted,
        ),
        (
            Some(429),
            r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"q","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]}]}}]"#,
            QuotaExhausted,
        ),
        (
            Some(429),
            r#"{"error":{"message":"Rate limit reached; add a payment method at account/billing","code":"rate_limit_exceeded"}}"#,
            RateLimit,
        ),
        // the conversation does not fit
        (
            Some(400),
            r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
            ContextOverflow,
        ),
        (
            Some(400),
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192"}}"#,
            ContextOverflow,
        ),
        (
            Some(400),
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens"}}"#,
            ContextOverflow,
        ),
        (
            Some(413),
            r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            ContextOverflow,
        ),
        (
            Some(422),
            r#"{"detail":"input is too long"}"#,
            ContextOverflow,
        ),
        (
            None,
            r#"{"code":400,"message":"the request exceeds the available context size"}"#,
            ContextOverflow,
        ),
        (
            Some(400),
            r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"x","n_ctx":4096}}"#,
            ContextOverflow,
        ),
        // the body does not fit
        (
            Some(413),
            "<html><head><title>413 Request Entity Too Large</title></head></html>",
            RequestTooLarge,
        ),
        (
            Some(413),
            "payload too large: 12000000 bytes",
            RequestTooLarge,
        ),
        (Some(413), "", Status),
        // images
        (
            Some(400),
            r#"{"error":{"message":"could not decode image"}}"#,
            ImageRejected,
        ),
        (
            Some(400),
            r#"{"error":{"message":"unsupported image format"}}"#,
            ImageRejected,
        ),
        (
            Some(400),
            r#"{"error":{"message":"image exceeds 5 MB maximum, invalid"}}"#,
            Status,
        ),
        (
            Some(400),
            r#"{"error":{"message":"too many images, invalid"}}"#,
            Status,
        ),
        (
            Some(400),
            r#"{"error":{"message":"invalid video or image"}}"#,
            Status,
        ),
        // structure
        (
            Some(400),
            r#"{"error":{"message":"An assistant message with 'tool_calls' must be followed by tool messages"}}"#,
            BadStructure,
        ),
        (
            Some(422),
            r#"{"error":"messages: roles must alternate"}"#,
            BadStructure,
        ),
        // filter
        (
            Some(400),
            r#"{"error":{"code":"content_filter","message":"refused"}}"#,
            Filtered,
        ),
        // in a stream
        (
            None,
            r#"{"error":{"code":"rate_limit_exceeded"}}"#,
            RateLimit,
        ),
        (
            None,
            r#"{"error":{"type":"overloaded_error","message":"busy"}}"#,
            Overloaded,
        ),
        (
            None,
            r#"{"error":{"message":"Too many requests"}}"#,
            RateLimit,
        ),
        (None, r#"{"error":{"message":"oops"}}"#, Unclassified),
        // gateways
        (
            None,
            "upstream failed, status_code=429 body=busy",
            RateLimit,
        ),
        (
            None,
            r#"litellm.APIError: Error code: 503 - {"error":{"message":"down"}}"#,
            Overloaded,
        ),
        (
            Some(400),
            r#"{"message":"proxy: {\"error\":{\"code\":\"context_length_exceeded\"}}"}"#,
            ContextOverflow,
        ),
        (
            Some(200),
            r#"{"error":{"code":429,"message":"slow down"}}"#,
            RateLimit,
        ),
    ] {
        assert_eq!(read(status, body).class, class, "{status:?} {body}");
    }
}

#[test]
fn messages_are_found_in_every_shape() {
    for (body, message) in [
        (
            r#"{"error":{"message":"boom"}}"#,
            "the provider answered 418: boom",
        ),
        (r#"{"error":"boom"}"#, "the provider answered 418: boom"),
        (
            r#"{"type":"error","error":{"type":"x","message":"boom"}}"#,
            "the provider answered 418: boom",
        ),
        (
            r#"[{"error":{"message":"boom"}}]"#,
            "the provider answered 418: boom",
        ),
        (r#"{"detail":"boom"}"#, "the provider answered 418: boom"),
        (
            r#"{"detail":[{"msg":"boom","loc":[]}]}"#,
            "the provider answered 418: boom",
        ),
        (r#"{"message":"boom"}"#, "the provider answered 418: boom"),
        ("boom", "the provider answered 418: boom"),
        (
            "<html><TITLE> Bad gateway </TITLE>",
            "the provider answered 418: Bad gateway",
        ),
        (
            "<p>",
            "the provider answered 418: a web page instead of an answer",
        ),
        ("", "the provider answered 418"),
        (
            r#"gateway said: {"error":{"message":"boom"}}"#,
            "the provider answered 418: boom",
        ),
    ] {
        assert_eq!(read(Some(418), body).message, message, "{body}");
    }
}

#[test]
fn errors_carry_ids_and_excerpts_without_secrets() {
    let mut headers = HeaderMap::new();
    headers.insert("x-request-id", HeaderValue::from_static("req-7"));
    headers.insert("retry-after", HeaderValue::from_static("2"));
    let body = format!(
        r#"{{"error":{{"message":"bad key sk-123456789"}},"echo":"data:image/png;base64,{}"}}"#,
        "A".repeat(9000)
    );
    let secrets = ["sk-123456789".to_owned().into()];
    let error = classify(&Answer {
        status: Some(429),
        headers: &headers,
        body: &body,
        secrets: &secrets,
        now: Timestamp(0),
    });
    assert_eq!(error.request_id.as_deref(), Some("req-7"));
    assert_eq!(error.retry_after.map(|wait| wait.as_secs()), Some(2));
    assert_eq!(
        error.message,
        "the provider answered 429: bad key [redacted]"
    );
    let excerpt = error.body.unwrap();
    assert!(
        excerpt.len() <= 2048 && excerpt.contains("base64,[data]") && !excerpt.contains("sk-1"),
        "{excerpt}"
    );
}
