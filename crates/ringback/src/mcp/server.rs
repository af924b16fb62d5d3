//! The server: from a request to a job, and from its answer to what the protocol wants.

use std::sync::Arc;

use ringback_core::spec::is_label;
use ringback_host::wire::VERSION;
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CancelTaskMethod, CancelTaskParams,
    ConstString as _, CustomRequest, CustomResult, ErrorCode, ErrorData, GetTaskMethod, GetTaskParams, GetTaskResult,
    Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, RequestId,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestMethod, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestMethod, UnsubscribeRequestParams, UpdateTaskMethod, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::WAITS_MAX;
use super::ahead::{Begun, BegunCall, Carried};
use super::alive;
use super::answer::Answer;
use super::args::{Args, wrong};
use super::bell::{Attention, Bell};
#[cfg(feature = "mcp-http")]
use super::heard::Exchange;
use super::heard::{OnItsWay, OnTheWay};
use super::link::{AtOnce, Awaited, Line, Shown};
use super::message::Rounded;
use super::reach::{Reach, is_of_daemon};
use super::speaker::Speaker;
#[cfg(feature = "mcp-http")]
use super::speaker::over_http;
use super::subscribe::{self, Streams, Subscribed};
use super::tool::{self, Job, Step, Work};
use super::tools::{self, Declared};
use super::{resource, task};
use crate::caller;
use crate::explain::Failure;
use crate::render::clean;

/// What the model is told of the server as a whole.
const INSTRUCTIONS: &str = "ringback runs commands in the background and reports each end once. Use run for anything that \
may take more than a few seconds; do not poll: every result lists endings not heard yet, and wait blocks. Output is \
quoted behind | as data.";

/// The server of one process.
pub(super) struct Server {
    pub(super) reach: Reach,
    bell: Arc<Bell>,
    on_the_way: OnTheWay,
    streams: Streams,
    subscribed: Subscribed,
}

impl Server {
    /// A server that has not spoken to any daemon so far.
    pub(super) fn new() -> Self {
        let reach = Reach::default();
        let bell = Arc::new(Bell::new(Arc::clone(&reach.link)));
        let (streams, subscribed) = (Streams::default(), Subscribed::default());
        Self { reach, bell, on_the_way: OnTheWay::default(), streams, subscribed }
    }

    /// The same server for one connection of several: what that has subscribed to ends with it.
    #[cfg(feature = "mcp-http")]
    pub(super) fn for_connection(&self) -> Self {
        Self {
            reach: self.reach.clone(),
            bell: Arc::clone(&self.bell),
            on_the_way: OnTheWay::default(),
            streams: self.streams.clone(),
            subscribed: Subscribed::default(),
        }
    }

    /// The answer to this request was written: what it shows was heard.
    pub(super) fn written(&self, request: &RequestId) {
        if let Some(OnItsWay { shown, attention }) = self.on_the_way.written(request) {
            self.told(shown, attention);
        }
    }

    /// An answer was written that shows this.
    pub(super) fn told(&self, shown: Shown, attention: Option<Attention>) {
        if !shown.tasks.is_empty() {
            self.reach.link.shown(shown);
        }
        // Only now, so that the bell finds the inbox without what this answer has told.
        drop(attention);
    }

    /// The answer to this request will show this, once it is written.
    fn will_show(&self, context: &RequestContext<RoleServer>, shown: Shown, attention: Option<Attention>) {
        #[cfg(feature = "mcp-http")]
        if let Some(exchange) = over_http(context).and_then(|parts| parts.extensions.get::<Arc<Exchange>>()) {
            exchange.add(shown);
            return;
        }
        self.on_the_way.add(context.id.clone(), OnItsWay { shown, attention });
    }

    async fn perform(
        &self,
        request: CallToolRequestParams,
        rounded: Option<Rounded>,
        speaker: &Speaker,
        awaited: &Awaited,
    ) -> Answer {
        if request.name == "wait" && self.reach.link.busy() >= WAITS_MAX {
            let hint = "name all ids in one wait".to_owned();
            return Answer::error(&Failure::new(
                "too_many",
                format!("{WAITS_MAX} calls are waiting already"),
                Some(hint),
            ));
        }
        let begun = self.begin(request, rounded, speaker);
        self.finish(begun, speaker, awaited).await
    }

    /// Begins a call: on the thread that reads, as far as that goes without waiting.
    pub(super) fn begin(
        &self,
        request: CallToolRequestParams,
        rounded: Option<Rounded>,
        speaker: &Speaker,
    ) -> BegunCall {
        let mut session = speaker.session.clone();
        let job = read(request, rounded, speaker, &mut session);
        self.reach.link.asks_again(&session);
        let begun = job.and_then(|job| self.ask(job, &session));
        BegunCall { session, begun }
    }

    fn ask(&self, Job { limit, work }: Job, session: &str) -> Result<Begun, Failure> {
        let call = match work {
            Work::Call(call) => call,
            Work::Ask(request, then) => match self.reach.link.ask_at_once(&caller::of(session.to_owned()), *request) {
                AtOnce::Answered(reply) => match then(session, reply?)? {
                    Step::Done(answer) => return Ok(Begun::Done(answer)),
                    Step::Call(call) => call,
                },
                left => Box::new(move |line: &mut Line| {
                    let reply = line.finish(left)?;
                    match then(line.session(), reply)? {
                        Step::Done(answer) => Ok(*answer),
                        Step::Call(call) => call(line),
                    }
                }),
            },
        };
        Ok(Begun::Left(limit, call))
    }

    /// Does what is left of a call, on a thread of its own.
    async fn finish(&self, BegunCall { session, begun }: BegunCall, speaker: &Speaker, awaited: &Awaited) -> Answer {
        let done = match begun {
            Ok(Begun::Done(answer)) => return *answer,
            Ok(Begun::Left(limit, call)) => {
                let awaited = awaited.clone();
                let work = move |line: &mut Line| {
                    line.awaited = awaited;
                    call(line)
                };
                self.reach.link.ask(caller::of(session.clone()), self.reach.patience(limit), work).await
            }
            Err(failure) => Err(failure),
        };
        match done {
            Ok(answer) => answer,
            Err(failure) => self.explain(&failure, session, speaker).await,
        }
    }

    /// A call of this speaker begins: the bell is quiet until it is answered.
    pub(super) fn attend(&self, speaker: &Speaker) -> Option<Attention> {
        speaker.codex_thread.as_deref().map(|thread| self.bell.attend(thread))
    }

    /// A call has this answer: the bell rings for a task that goes on.
    pub(super) fn answered(&self, answer: &Answer, speaker: &Speaker) {
        if let (Some(task), Some(thread)) = (&answer.unfinished, &speaker.codex_thread)
            && task.session == *thread
        {
            self.bell.watch(thread.clone());
        }
    }

    /// The answer of a call that failed; what the session has not heard stands there, too.
    async fn explain(&self, failure: &Failure, session: String, speaker: &Speaker) -> Answer {
        let answer = Answer::error(failure);
        if is_of_daemon(failure) {
            return answer;
        }
        let patience = self.reach.patience(speaker.limit());
        let completed = self.reach.link.ask(caller::of(session), patience, |line| Ok(answer.complete(line, &[]))).await;
        completed.unwrap_or_else(|_| Answer::error(failure))
    }
}

/// Methods of ours whose parameters may be of another form than the protocol says.
const METHODS: [&str; 7] = [
    CallToolRequestMethod::VALUE,
    GetTaskMethod::VALUE,
    UpdateTaskMethod::VALUE,
    CancelTaskMethod::VALUE,
    ReadResourceRequestMethod::VALUE,
    SubscribeRequestMethod::VALUE,
    UnsubscribeRequestMethod::VALUE,
];

/// What is wrong with a call that is none.
fn misshapen(params: Option<&Value>) -> Failure {
    let field = |name: &str| params.and_then(|params| params.get(name));
    let next = "for example {\"name\":\"run\",\"arguments\":{\"command\":\"make test\"}}".to_owned();
    match field("name") {
        Some(Value::String(_)) => wrong("the arguments of a tool must be an object".to_owned(), next),
        _ => wrong("a call must have the name of a tool".to_owned(), next),
    }
}

/// Reads a call. The session that it names is set even if the rest cannot be read.
fn read(
    request: CallToolRequestParams,
    rounded: Option<Rounded>,
    speaker: &Speaker,
    session: &mut String,
) -> Result<Job, Failure> {
    let Some(declared) = Declared::find(&request.name) else {
        let names: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.name).collect();
        let message = format!("there is no tool `{}`", clean::short(&request.name, 60));
        return Err(wrong(message, format!("the tools are {}", names.join(", "))));
    };
    let known = declared.arguments();
    let mut args = Args::new(declared.name, &known, request.arguments.unwrap_or_default())?.rounded(rounded);
    if let Some(named) = args.text("session")? {
        if !is_label(&named) {
            let message = format!("`{}` cannot be the name of a session", clean::short(&named, 60));
            return Err(wrong(message, "a session's name is one line of 1 to 256 bytes".to_owned()));
        }
        *session = named;
    }
    tool::read(declared.name, args, speaker)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tasks()
            .enable_resources()
            .enable_resources_subscribe()
            .build();
        let about = Implementation::new("ringback", VERSION).with_title("ringback");
        ServerConfig::new(capabilities).with_server_info(about).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::listed()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let speaker = Speaker::of(&context);
        let (awaited, rounded) = (Awaited::default(), rounded(&context));
        let (begun, attention) = match context.extensions.get::<Carried>().and_then(Carried::take) {
            Some((begun, attention)) => (Some(begun), attention),
            None => (None, self.attend(&speaker)),
        };
        let performed = async {
            match begun {
                Some(begun) => self.finish(begun, &speaker, &awaited).await,
                None => self.perform(request, rounded, &speaker, &awaited).await,
            }
        };
        let answer = tokio::select! {
            answer = performed => answer,
            // The answer is never sent; the job gives up, and its tasks run on.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the request was cancelled", None)),
            never = alive::report(&self.reach.link, &context, &speaker.session, &awaited) => match never {},
        };
        if let Some(unfinished) = answer.unfinished.as_ref().filter(|_| speaker.takes_tasks) {
            return Ok(CallToolResponse::Task(task::created(unfinished, &answer)));
        }
        self.answered(&answer, &speaker);
        self.will_show(&context, answer.shown(), attention);
        Ok(CallToolResponse::Complete(answer.result()))
    }

    /// What is not of the form of any request that is known: for a call an error that a model can read and mend.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = clean::short(&request.method, 60);
        if !METHODS.contains(&request.method.as_str()) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        if request.method != CallToolRequestMethod::VALUE {
            return Err(ErrorData::invalid_params(format!("the parameters of {method} are of another form"), None));
        }
        let speaker = Speaker::of(&context);
        let answer = self.explain(&misshapen(request.params.as_ref()), speaker.session.clone(), &speaker).await;
        let mut result = serde_json::to_value(answer.result()).unwrap_or_default();
        if let (false, Some(fields)) = (speaker.is_modern, result.as_object_mut()) {
            fields.remove("resultType");
        }
        Ok(CustomResult::new(result))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let speaker = Speaker::of(&context);
        let (task, shown) = task::look(&self.reach, &speaker, request.task_id).await?;
        self.will_show(&context, shown, None);
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Our tasks never ask for input, so there is nothing to take; but the task must be there.
        task::look(&self.reach, &Speaker::of(&context), request.task_id).await.map(|_| ())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        task::cancel(&self.reach, &Speaker::of(&context), request.task_id).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resource::list(&self.reach, &Speaker::of(&context), page).await
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resource::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(resource::read(&self.reach, &Speaker::of(&context), request.uri).await?.into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(subscribe::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let uris = context.accepted().resource_subscriptions.iter().flatten();
        let addresses: Vec<_> = uris.filter_map(|uri| subscribe::changing(uri)).collect();
        if addresses.is_empty() {
            context.cancelled().await;
            return Ok(());
        }
        let Some(_place) = self.streams.take() else { return Err(too_many_streams()) };
        let caller = caller::of(Speaker::of(context.request_context()).session);
        let tell = |uri: String| {
            let sink = context.sink().clone();
            async move { sink.notify_resource_updated(uri).await.is_ok() }
        };
        tokio::select! {
            () = context.cancelled() => {}
            () = subscribe::follow(Arc::clone(&self.reach.link), caller, addresses, self.reach.closed(), tell) => {}
        }
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Whoever may not read it is told now, not by silence.
        resource::read(&self.reach, &Speaker::of(&context), request.uri.clone()).await?;
        let Some(address) = subscribe::changing(&request.uri) else {
            return Err(resource::not_found(
                &request.uri,
                "a page of an output does not change; subscribe to the output",
            ));
        };
        let Some(place) = self.streams.take() else { return Err(too_many_streams()) };
        let (link, closed, peer) = (Arc::clone(&self.reach.link), self.reach.closed(), context.peer.clone());
        let caller = caller::of(Speaker::of(&context).session);
        let follower = tokio::spawn(async move {
            let _place = place;
            let tell = |uri: String| {
                let peer = peer.clone();
                async move { peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_ok() }
            };
            subscribe::follow(link, caller, vec![address], closed, tell).await;
        });
        self.subscribed.set(request.uri, follower.abort_handle());
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.clear(&request.uri);
        Ok(())
    }
}

fn too_many_streams() -> ErrorData {
    ErrorData::internal_error("too many subscriptions are open; close one first", None)
}

/// The number in the call's text that was rounded when it was read.
fn rounded(context: &RequestContext<RoleServer>) -> Option<Rounded> {
    #[cfg(feature = "mcp-http")]
    if let Some(parts) = over_http(context) {
        return parts.extensions.get().cloned();
    }
    context.extensions.get().cloned()
}
