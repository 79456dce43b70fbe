package enginetest

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"
)

// Scraped reads the metrics, as {name without tasktable_} {label values, by the labels' names}; of a histogram
// its count and sum.
func Scraped(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	OK(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "tasktable_")
			labels := ""
			for _, label := range metric.GetLabel() {
				labels += " " + label.GetValue()
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				found[name+labels] = metric.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				found[name+labels] = metric.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				found[name+"_count"+labels] = float64(metric.GetHistogram().GetSampleCount())
				found[name+"_sum"+labels] = metric.GetHistogram().GetSampleSum()
			default:
				t.Errorf("%s: %s", family.GetName(), family.GetType())
			}
		}
	}
	return found
}

// Some is those of a name that are not zero.
func Some(all map[string]float64, name string) map[string]float64 {
	found := map[string]float64{}
	for key, value := range all {
		if labels, ok := strings.CutPrefix(key, name+" "); ok && value != 0 {
			found[labels] = value
		}
	}
	return found
}

// Has reports whether a scrape has the series.
func Has(all map[string]float64, name string) bool { _, ok := all[name]; return ok }
