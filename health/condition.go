package health

import (
	"maps"
	"slices"
	"time"
)

// Code names a condition: lower case with underscores, the same in every endpoint, metric and log.
type Code string

// The codes that exist; declarations says what each stands for.
const (
	CodeStalled            Code = "stalled"
	CodeUsersFailing       Code = "users_failing"
	CodeBreakerOpen        Code = "breaker_open"
	CodeFatalBackend       Code = "fatal_backend"
	CodeCheckFailed        Code = "check_failed"
	CodeReleasing          Code = "releasing"
	CodeWaitingForCalm     Code = "waiting_for_calm"
	CodeBackendUnreachable Code = "backend_unreachable"
	CodeModelNotLoaded     Code = "model_not_loaded"
	CodeNotRecognised      Code = "not_recognised"
	CodeWarmFailed         Code = "warm_failed"
	CodeWarmedNothing      Code = "warmed_nothing"
	CodeNotConverged       Code = "not_converged"
	CodeGPUTimeSpent       Code = "gpu_time_spent"
	CodeOptionalFailed     Code = "optional_failed"
	CodeWorkersUnknown     Code = "workers_unknown"
	CodeModelUnhealthy     Code = "model_unhealthy"
	CodeCredentialsRefused Code = "credentials_refused"
	CodeBackendLost        Code = "backend_lost"
	CodeBackendRestarted   Code = "backend_restarted"
	CodeTrafficBypasses    Code = "traffic_bypasses"
	CodeFellBackToCPU      Code = "fell_back_to_cpu"
)

// Declaration is what a code stands for.
type Declaration struct {
	Severity Severity
	Effect   Effect
	// Meaning is one sentence for the person who looks the code up.
	Meaning string
}

// declarations is the one table of conditions; a code that is not in it cannot be raised.
var declarations = map[Code]Declaration{
	CodeStalled:            {SeverityCritical, EffectCondemns, "nothing finishes or progresses, and a synthetic request fails"},
	CodeUsersFailing:       {SeverityWarning, EffectDegrades, "users' requests fail while synthetic requests pass"},
	CodeBreakerOpen:        {SeverityCritical, EffectCondemns, "too many exchanges failed, and the circuit breaker is open"},
	CodeFatalBackend:       {SeverityCritical, EffectCondemns, "the backend said something it does not recover from"},
	CodeCheckFailed:        {SeverityWarning, EffectInforms, "the backend's own health endpoint fails"},
	CodeBackendUnreachable: {SeverityNotice, EffectWithholds, "nobody answers at the backend's address yet"},
	CodeModelNotLoaded:     {SeverityNotice, EffectWithholds, "the backend answers, but has not loaded what is to be warmed"},
	CodeNotRecognised:      {SeverityWarning, EffectWithholds, "the backend answers like no server type known here; backend.type or warmup.sample says what it is"},
	CodeReleasing:          {SeverityNotice, EffectWithholds, "the requests that were held until now are being answered first"},
	CodeWaitingForCalm:     {SeverityNotice, EffectWithholds, "the warm-up waits until the machine has room for it"},
	CodeWarmFailed:         {SeverityWarning, EffectWithholds, "a required warm-up failed and is tried again"},
	CodeWarmedNothing:      {SeverityNotice, EffectInforms, "no step warms this, so it serves as it is"},
	CodeNotConverged:       {SeverityWarning, EffectDegrades, "latency has not settled within the allowed number of requests"},
	CodeGPUTimeSpent:       {SeverityWarning, EffectDegrades, "the time allowed for synthetic requests is spent, and some shapes are left unwarmed"},
	CodeOptionalFailed:     {SeverityWarning, EffectDegrades, "an optional warm-up step failed"},
	CodeWorkersUnknown:     {SeverityNotice, EffectInforms, "the number of backend workers is unknown, so some may be cold"},
	CodeModelUnhealthy:     {SeverityCritical, EffectDegrades, "this model is unhealthy; the pod serves the others"},
	CodeCredentialsRefused: {SeverityCritical, EffectWithholds, "the backend refuses our credentials"},
	CodeBackendLost:        {SeverityCritical, EffectWithholds, "the backend refuses connections"},
	CodeBackendRestarted:   {SeverityNotice, EffectWithholds, "the backend was restarted and is cold"},
	CodeTrafficBypasses:    {SeverityWarning, EffectInforms, "requests reach the backend that did not come through here"},
	CodeFellBackToCPU:      {SeverityWarning, EffectDegrades, "a GPU was asked for and the CPU is used"},
}

// CodeValues lists every declared code, in alphabetical order.
func CodeValues() []Code { return slices.Sorted(maps.Keys(declarations)) }

// Declared returns what the code stands for, and whether it exists.
func (c Code) Declared() (Declaration, bool) {
	declaration, ok := declarations[c]

	return declaration, ok
}

// Condition is a reason why something is as it is.
type Condition struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Text says what was seen; for people, never parsed. It is shown by the admin endpoints only.
	Text string `json:"text"`
	// Since is when the condition was raised; raising it again changes the text only.
	Since time.Time `json:"since"`
}
