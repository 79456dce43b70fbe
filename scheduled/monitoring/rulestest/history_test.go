package rulestest

import (
	"cmp"
	"io"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrapeEvery is how far apart the scrapes of a history are. In truth they come one after the other: a test
// cannot wait for hours.
const scrapeEvery = 30 * time.Second

// history is what Prometheus would have stored: the scrapes of one instance.
type history struct {
	now     time.Time // of the last scrape
	scrapes []time.Time
	last    []scrapedSample
	series  map[uint64]*series
	named   map[string][]*series // the same by their names
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

type scrapedSample struct {
	labels labels.Labels
	value  float64
}

func newHistory() *history {
	return &history{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), series: map[uint64]*series{},
		named: map[string][]*series{}}
}

// scrape asks as Prometheus does, by HTTP, and parses the text that comes. The scrape is so long after the one before.
func (h *history) scrape(t *testing.T, from prometheus.Gatherer, after time.Duration) {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(from, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.Code != 200 {
		t.Fatalf("%d: %s, %v", answer.Code, text, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var samples []scrapedSample
	for _, family := range families {
		samples = append(samples, samplesOf(family)...)
	}
	h.add(after, samples)
}

// add adds a scrape so long after the one before. A series that is not in it any more goes stale.
func (h *history) add(after time.Duration, samples []scrapedSample) {
	h.now = h.now.Add(after)
	h.scrapes = append(h.scrapes, h.now)
	at := h.now.UnixMilli()
	seen := map[uint64]bool{}
	for _, one := range samples {
		seen[one.labels.Hash()] = true
		series := h.of(one.labels)
		series.samples = append(series.samples, sample{at, one.value})
	}
	for _, one := range h.last {
		if key := one.labels.Hash(); !seen[key] {
			h.series[key].samples = append(h.series[key].samples, sample{at, stale})
		}
	}
	h.last = samples
}

// hold lets time pass in which nothing changes; change, if there is one, sets what does, by the number of the scrape.
func (h *history) hold(
	length, every time.Duration, change func(i int, name string, l labels.Labels, value float64) float64,
) {
	was := h.last
	for i := range int(length / every) {
		next := make([]scrapedSample, len(was))
		for j, one := range was {
			if next[j] = one; change != nil {
				next[j].value = change(i, one.labels.Get(model.MetricNameLabel), one.labels, one.value)
			}
		}
		h.add(every, next)
	}
}

func samplesOf(family *dto.MetricFamily) (samples []scrapedSample) {
	for _, metric := range family.GetMetric() {
		add := func(suffix string, value float64, more ...string) {
			all := append(
				[]string{
					model.MetricNameLabel, family.GetName() + suffix, "instance", "node1:9090", "job", "tasktable",
				},
				more...,
			)
			for _, label := range metric.GetLabel() {
				all = append(all, label.GetName(), label.GetValue())
			}
			samples = append(samples, scrapedSample{labels.FromStrings(all...), value})
		}
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			add("", metric.GetCounter().GetValue())
		case dto.MetricType_GAUGE:
			add("", metric.GetGauge().GetValue())
		case dto.MetricType_HISTOGRAM:
			add("_count", float64(metric.GetHistogram().GetSampleCount()))
			add("_sum", metric.GetHistogram().GetSampleSum())
			for _, bucket := range metric.GetHistogram().GetBucket() {
				add(
					"_bucket", float64(bucket.GetCumulativeCount()), "le",
					model.SampleValue(bucket.GetUpperBound()).String(),
				)
			}
		}
	}
	return samples
}

// stale is Prometheus's mark of a series that has ended.
var stale = math.Float64frombits(0x7ff0000000000002)

// sample is a float at a time.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// Querier makes a history Prometheus's storage.
func (h *history) Querier(mint, maxt int64) (storage.Querier, error) {
	return &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return h.between(mint, maxt, matchers)
		},
	}, nil
}

// between are the series that match, with their samples of a time.
func (h *history) between(mint, maxt int64, matchers []*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{at: -1}
	for _, one := range h.called(matchers) {
		if !one.matches(matchers) {
			continue
		}
		from, _ := slices.BinarySearchFunc(one.samples, mint, func(s chunks.Sample, at int64) int {
			return cmp.Compare(s.T(), at)
		})
		to, _ := slices.BinarySearchFunc(one.samples, maxt+1, func(s chunks.Sample, at int64) int {
			return cmp.Compare(s.T(), at)
		})
		found.all = append(found.all, storage.NewListSeries(one.labels, one.samples[from:to]))
	}
	slices.SortFunc(found.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}

// called are the series of the name that the matchers ask for. To try all series took a third of the tests' time.
func (h *history) called(matchers []*labels.Matcher) []*series {
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return h.named[m.Value]
		}
	}
	return slices.Collect(maps.Values(h.series))
}

// of is the series with the labels, which is made if there is none.
func (h *history) of(l labels.Labels) *series {
	key := l.Hash()
	if h.series[key] == nil {
		one, name := &series{labels: l}, l.Get(model.MetricNameLabel)
		h.series[key], h.named[name] = one, append(h.named[name], one)
	}
	return h.series[key]
}

func (s *series) matches(matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) })
}

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series              { return s.all[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// engine is Prometheus's own.
var engine = promql.NewEngine(promql.EngineOpts{
	MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
})

// ask evaluates an expression at a time.
func (h *history) ask(t *testing.T, expression string, at time.Time) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), h, nil, expression, at)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	if result.Err != nil || len(result.Warnings) > 0 {
		t.Fatalf("%s: %v, %v", expression, result.Err, result.Warnings)
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return slices.Clone(vector)
}

// record adds the samples of the recording rules at a time.
func (h *history) record(t *testing.T, at time.Time) {
	t.Helper()
	for _, rule := range rules(t) {
		if rule.Record == "" {
			continue
		}
		for _, one := range h.ask(t, rule.Expr, at) {
			series := h.of(labels.NewBuilder(one.Metric).Set(model.MetricNameLabel, rule.Record).Labels())
			series.samples = append(series.samples, sample{at.UnixMilli(), one.F})
		}
	}
}

// exists says whether there is a series like that.
func (h *history) exists(matchers ...*labels.Matcher) bool {
	return slices.ContainsFunc(h.called(matchers), func(one *series) bool { return one.matches(matchers) })
}
