package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/snowfence/snowflake"
)

// object is what the tests look at of any Kubernetes object.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name        string
		Annotations map[string]string
	}
	Immutable bool
	Data      map[string]string
	Spec      struct {
		Replicas        int
		MinReadySeconds int `yaml:"minReadySeconds"`
		MaxUnavailable  any `yaml:"maxUnavailable"` // of a PodDisruptionBudget
		Strategy        struct {
			Type          string
			RollingUpdate struct {
				MaxSurge       any `yaml:"maxSurge"`
				MaxUnavailable any `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		}
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []container
			}
		}
	}
}

type container struct {
	Env []struct {
		Name, Value string
		ValueFrom   struct {
			ConfigMapKeyRef struct {
				Name, Key string
				Optional  bool
			} `yaml:"configMapKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   probe `yaml:"startupProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
}

type probe struct {
	HTTPGet struct {
		Path, Port string
	} `yaml:"httpGet"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

// manifests reads the objects of files.
func manifests(t *testing.T, names ...string) map[string]object {
	t.Helper()
	objects := make(map[string]object)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		documents := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var o object
			err := documents.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			require.NotContains(t, objects, o.Kind)
			objects[o.Kind] = o
		}
	}
	return objects
}

// codesNeeded is how many codes a Deployment may hold at one instant.
func codesNeeded(d object) (int, error) {
	s := d.Spec
	surge, err := pods(s.Strategy.RollingUpdate.MaxSurge, s.Replicas)
	if err != nil {
		return 0, err
	}
	crashes, err := strconv.Atoi(d.Metadata.Annotations["ids.example.com/crashes-within-ttl"])
	if err != nil {
		return 0, err
	}
	// Terminating pods have codes, and no limit of their own: only as many as became
	// available within a grace period let others go.
	terminating := s.Replicas
	if s.MinReadySeconds > 0 {
		grace := s.Template.Spec.TerminationGracePeriodSeconds
		terminating = min(terminating, surge*((grace+s.MinReadySeconds-1)/s.MinReadySeconds))
	}
	return s.Replicas + surge + terminating + crashes, nil
}

// pods is a number or a share of the replicas, which for maxSurge is rounded up.
func pods(value any, replicas int) (int, error) {
	switch v := value.(type) {
	case int:
		return v, nil
	case string:
		percent, err := strconv.Atoi(strings.TrimSuffix(v, "%"))
		return (replicas*percent + 99) / 100, err
	}
	return 0, fmt.Errorf("%v is neither a number nor a share of the pods", value)
}

func TestTheCodesSuffice(t *testing.T) {
	objects := manifests(t, "deployment.yaml")
	d := objects["Deployment"]
	codes, err := strconv.Atoi(d.Metadata.Annotations["ids.example.com/codes"])
	require.NoError(t, err)
	require.Equal(t, 1<<snowflake.DefaultLayout().WorkerBits, codes, "of a region, as the layout has them")
	need, err := codesNeeded(d)
	require.NoError(t, err)
	require.LessOrEqual(t, need, codes)

	node, err := strconv.Atoi(d.Metadata.Annotations["ids.example.com/pods-of-a-node"])
	require.NoError(t, err)
	evicted, err := pods(objects["PodDisruptionBudget"].Spec.MaxUnavailable, d.Spec.Replicas)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(node+evicted), d.Metadata.Annotations["ids.example.com/crashes-within-ttl"])

	require.Equal(t, "RollingUpdate", d.Spec.Strategy.Type)
	require.Equal(t, 0, d.Spec.Strategy.RollingUpdate.MaxUnavailable)
	surge, err := pods(d.Spec.Strategy.RollingUpdate.MaxSurge, d.Spec.Replicas)
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	sum := strings.Join(strings.Fields(fmt.Sprintf("%d + %d + %d + %d = %d", d.Spec.Replicas, surge, surge, node+evicted, need)), " ")
	require.Contains(t, strings.Join(strings.Fields(string(readme)), " "), sum, "README says the same")
}

// The sum is one that can be wrong.
func TestWhatWouldNotSuffice(t *testing.T) {
	for name, change := range map[string]func(d *object){
		"more replicas":                        func(d *object) { d.Spec.Replicas++ },
		"more surge":                           func(d *object) { d.Spec.Strategy.RollingUpdate.MaxSurge = 21 },
		"the surge that Kubernetes defaults":   func(d *object) { d.Spec.Strategy.RollingUpdate.MaxSurge = "25%" },
		"a share that is rounded up":           func(d *object) { d.Spec.Strategy.RollingUpdate.MaxSurge = "11%" },
		"no pause between the pods":            func(d *object) { d.Spec.MinReadySeconds = 0 },
		"a pause shorter than an end":          func(d *object) { d.Spec.MinReadySeconds = 29 },
		"an end that is longer than the pause": func(d *object) { d.Spec.Template.Spec.TerminationGracePeriodSeconds = 31 },
	} {
		d := manifests(t, "deployment.yaml")["Deployment"]
		change(&d)
		need, err := codesNeeded(d)
		require.NoError(t, err)
		require.Greater(t, need, 256, name)
	}
	d := manifests(t, "deployment.yaml")["Deployment"]
	d.Spec.Strategy.RollingUpdate.MaxSurge = "10%"
	need, err := codesNeeded(d)
	require.NoError(t, err)
	require.Equal(t, 256, need, "the same as 20")
	d.Spec.Strategy.RollingUpdate.MaxSurge = nil
	_, err = codesNeeded(d)
	require.Error(t, err)
}

func TestManifestsFitTheProgram(t *testing.T) {
	objects := manifests(t, "deployment.yaml", "region.yaml")
	d, region := objects["Deployment"], objects["ConfigMap"]
	require.Len(t, d.Spec.Template.Spec.Containers, 1)
	c := d.Spec.Template.Spec.Containers[0]

	// Each cluster has its own number, and no default.
	var names []string
	for _, e := range c.Env {
		names = append(names, e.Name)
		require.Empty(t, e.Value, "%s is not the same everywhere", e.Name)
		require.False(t, e.ValueFrom.ConfigMapKeyRef.Optional, e.Name)
		if e.Name == regionEnv {
			require.Equal(t, region.Metadata.Name, e.ValueFrom.ConfigMapKeyRef.Name)
			_, err := parseRegion(region.Data[e.ValueFrom.ConfigMapKeyRef.Key], snowflake.DefaultLayout())
			require.NoError(t, err)
		}
	}
	require.Equal(t, []string{regionEnv, databaseEnv, podEnv}, names)
	require.True(t, region.Immutable)

	require.Len(t, c.Ports, 1)
	require.Equal(t, address, fmt.Sprintf(":%d", c.Ports[0].ContainerPort))
	for path, p := range map[string]probe{"/ready": c.ReadinessProbe, "/live": c.LivenessProbe} {
		require.Equal(t, path, p.HTTPGet.Path)
		require.Equal(t, c.Ports[0].Name, p.HTTPGet.Port)
	}
	require.Equal(t, "/live", c.StartupProbe.HTTPGet.Path)
	start := time.Duration(c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold) * time.Second
	require.Greater(t, start, 2*time.Minute+5*time.Second, "TTL + MaxClockSkew, for which a pod may wait for a code")

	grace := time.Duration(d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	require.Greater(t, grace, inOrder.leave+inOrder.drain+inOrder.close, "else it is killed before it has given its code back")
	unready := time.Duration(c.ReadinessProbe.PeriodSeconds*c.ReadinessProbe.FailureThreshold) * time.Second
	require.Greater(t, inOrder.leave, unready, "requests stop before the program does")
}
