//! The connection and the server.

use longshore_protocol::PROTOCOL_VERSION;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::event::Event;
use longshore_protocol::method::Method;
use longshore_protocol::method::host::{
    HostStatus, InitializeParams, InitializeResult, Limits, ModelListParams, ModelListResult,
    PingParams, PingResult, ServerCapabilities, ShutdownParams, ShutdownResult, StatusParams,
    StatusResult,
};

use super::page;
use crate::face::native::OnShutdown;
use crate::face::native::dispatch::Cx;
use crate::face::native::error::invalid_params;
use crate::kernel::fault::Fault;
use crate::kernel::limits;
use crate::os::memory;

pub(in crate::face::native) fn initialize(
    cx: &Cx,
    params: InitializeParams,
) -> Result<InitializeResult, Fault> {
    if params.protocol_version == 0 {
        let path = "/protocolVersion";
        return Err(invalid_params(
            path,
            "1 or higher",
            "There is no protocol version 0.",
        ));
    }
    let protocol_version = params.protocol_version.min(PROTOCOL_VERSION);
    if !cx.host.greet(params) {
        return Err(Fault::new(
            ErrorKind::InvalidRequest,
            "This connection is initialized already.",
        ));
    }
    let host = cx.host.clone();
    cx.after(move || host.connect());
    let deps = cx.deps();
    let limits = &deps.limits;
    Ok(InitializeResult {
        protocol_version,
        server: deps.server.clone(),
        capabilities: ServerCapabilities {
            methods: Method::ALL
                .iter()
                .map(|method| method.name().to_owned())
                .collect(),
            events: Event::ALL
                .iter()
                .map(|event| event.name().to_owned())
                .collect(),
        },
        limits: Limits {
            max_message_bytes: limits.max_message_bytes as u64,
            max_in_flight: limits.max_in_flight as u64,
            max_queued_turns: limits.max_queued_turns as u64,
        },
        models: deps.sessions.models(),
        default_model: deps.sessions.default_model(),
        warnings: (deps.warnings)(),
    })
}

pub(in crate::face::native) async fn shutdown(
    cx: Cx,
    _: ShutdownParams,
) -> Result<ShutdownResult, Fault> {
    if cx.deps().on_shutdown == OnShutdown::Connection {
        let peer = cx.host.peer.clone();
        cx.after(move || peer.stop());
        return Ok(ShutdownResult {});
    }
    cx.host.native.drain();
    cx.deps().sessions.shutdown(limits::SHUTDOWN).await;
    let stop = cx.deps().stop.clone();
    cx.after(move || stop.cancel());
    Ok(ShutdownResult {})
}

pub(in crate::face::native) fn ping(_: &Cx, _: PingParams) -> PingResult {
    PingResult {}
}

pub(in crate::face::native) fn status(cx: &Cx, _: StatusParams) -> StatusResult {
    let deps = cx.deps();
    let hosts = deps.hub.hosts().into_iter().map(|host| HostStatus {
        host_id: host.id.to_string(),
        name: host.name,
        queued_messages: host.queue.messages as u64,
        queued_bytes: host.queue.bytes as u64,
        sessions: host.queue.sessions as u64,
    });
    StatusResult {
        uptime_ms: deps.clock.elapsed().as_millis() as u64,
        hosts: hosts.collect(),
        loaded_sessions: deps.sessions.loaded_count() as u64,
        running_turns: deps.sessions.running_count() as u64,
        resident_bytes: memory::measure().map(|memory| memory.rss_bytes),
        warnings: (deps.warnings)(),
    }
}

pub(in crate::face::native) fn models(
    cx: &Cx,
    params: ModelListParams,
) -> Result<ModelListResult, Fault> {
    page(
        cx.deps().sessions.models(),
        params.cursor.as_deref(),
        params.limit,
    )
}
